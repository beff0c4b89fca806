"""The pages of plays in a real browser: what is shown, at both widths, by keyboard, and of a hostile tape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.failures import load
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.viewer import page as pages
from tests.conformance.viewer_plays import (
    HOSTILE,
    LEAK,
    LONG,
    WIDE,
    Tape,
    config_like,
    drawn,
    finding,
    hostile_tape,
    long_play,
    random_play,
)
from tests.support.browser import launched
from tools import site_files


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as found:
        yield found


@contextmanager
def opened(
    browser: Any,
    path: Path,
    tape: Tape | None = None,
    *,
    at: str = "",
    script: bool = True,
    wrong: list[str] | None = None,
) -> Iterator[Any]:
    """A page in the browser; at the end nothing is ``wrong``: it raised nothing, logged no error, fetched nothing."""
    if tape is not None:
        with path.open("w", encoding="utf-8") as stream:
            pages.write(stream, [pages.Play(*tape, "kvlitmus replay 'a b.jsonl'")])
    context = browser.new_context(viewport={"width": 1280, "height": 800}, java_script_enabled=script)
    wrong = [] if wrong is None else wrong
    try:
        found = context.new_page()
        asked: list[str] = []
        found.on("pageerror", lambda error: wrong.append(str(error)))
        found.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        found.on("dialog", lambda dialog: wrong.append(dialog.message))
        found.on("request", lambda request: asked.append(request.url))
        found.goto(path.as_uri() + at)
        if script:
            found.wait_for_selector("html[data-drawn]", state="attached")
        yield found
        assert wrong == []
        assert [url.partition("#")[0] for url in asked] == [path.as_uri()]
    finally:
        context.close()


def shows(page: Any, step: int) -> None:
    """Wait until this step is drawn."""
    page.wait_for_selector(f"html[data-drawn='{step}']", state="attached")
    assert page.locator("#at").input_value() == str(step)
    assert page.locator("#steps [aria-current=step]").inner_text().split()[0] == str(step)


@pytest.mark.parametrize("label", ["storage=attached best_effort", "sparse", "ranks timeout", "store", "page=4 lru"])
def test_every_kind_of_cache_fits_the_screen(browser: Any, tmp_path: Path, label: str) -> None:
    tape = random_play(specimen, config_like(label), ops=12)
    with opened(browser, tmp_path / "play.html", tape) as page:
        shows(page, len(tape[1]) - ("call" not in tape[1][0]))
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == width
            paper, ink, *squares = page.evaluate(COLORS)
            assert (light(paper) > light(ink)) is (scheme == "light")
            assert all(abs(light(one) - light(other)) > 100 for one, other in squares)


COLORS = """() => {
    const body = getComputedStyle(document.body);
    const squares = [...document.querySelectorAll(".squares li")].map((one) => getComputedStyle(one));
    return [body.backgroundColor, body.color, ...squares.map((one) => [one.backgroundColor, one.color])];
}"""


def light(color: str) -> float:
    """How light a color is, from 0 to 255."""
    return sum(float(one) for one in color.removeprefix("rgb(").rstrip(")").split(",")[:3]) / 3


def test_a_finding_opens_where_it_is_broken_and_says_what_is_wrong(browser: Any, tmp_path: Path) -> None:
    tape = finding(*LEAK)
    with opened(browser, tmp_path / "finding.html", tape) as page:
        shows(page, len(tape[1]) - 1)
        text = page.locator(".finding").inner_text()
        (rule,) = {tape[1][-1]["verdicts"][0]["rule"]}
        assert rule in text
        assert brief(tape[0]["finding"]["allowed"]) in text
        red = page.locator(".squares li.none").all()
        assert red
        assert "no home" in red[0].inner_text()
        said = page.locator("#said").inner_text()
        assert f"broken: {rule}" in said
        assert "no home" in said
        assert page.locator(".replay code").inner_text() == "kvlitmus replay 'a b.jsonl'"
        # Some browsers answer at once, others later, and the page's policy forbids to poll by an evaluated text.
        page.evaluate("() => { navigator.clipboard.writeText = () => new Promise((done) => setTimeout(done, 300)); }")
        page.locator(".replay button").click()
        page.locator(".replay button").get_by_text("Copy", exact=True).wait_for(state="detached")


def test_the_step_that_is_shown_is_in_sight_and_nothing_red_is_cut_short(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "published.html"
    file.write_text(site_files.page_of(site_files.FOLDER / "sglang-0.5.13.post1/MISUSE-03-d2410823.jsonl"), "utf-8")
    with opened(browser, file) as page:
        shows(page, 35)
        box = page.locator("#steps [aria-current=step]").bounding_box()
        assert box["y"] + box["height"] <= 800
        red = page.locator(".squares li.two span:not(.unseen)")
        assert red.all_inner_texts() == ["caller, steps 33 + 35", "free + caller, step 34"]
        assert red.evaluate_all("all => all.every((one) => one.scrollHeight <= one.clientHeight + 1)")
        page.evaluate("location.hash = '#step=20'")
        shows(page, 20)
        assert "they have differed since step 2" in page.locator("#drawn .alike").inner_text()


def test_the_lanes_show_what_fails_and_nothing_of_later_steps(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "published.html"
    file.write_text(
        site_files.page_of(site_files.FOLDER / "sglang-0.5.13.post1-hicache/POOL-12-40675ec6.jsonl"), "utf-8"
    )
    with opened(browser, file, at="#step=27") as page:
        shows(page, 27)
        assert page.locator(".lane i.failed.here").count() == 1
        assert "failed" in page.locator(".lanes + .legend").inner_text()
        page.evaluate("location.hash = '#step=19'")
        shows(page, 19)
        assert page.locator(".lane").count() == 1
        assert page.locator("#drawn h3").all_inner_texts()[1:3] == ["DEVICE POOL", "HOST POOL"]
        assert "waits" not in page.locator(".lanes + .legend").inner_text()
        page.evaluate("location.hash = '#step=29'")
        shows(page, 29)
        assert page.locator("#drawn h3").all_inner_texts()[1:3] == ["HOST POOL", "DEVICE POOL"], "red stands first"


def test_steps_go_by_keys_slider_buttons_list_and_links(browser: Any, tmp_path: Path) -> None:
    tape = random_play(specimen, config_like("page=4 lru"), ops=60)
    last = len(tape[1]) - 1
    with opened(browser, tmp_path / "play.html", tape, at="#step=7") as page:
        shows(page, 7)
        for key, step in (("ArrowRight", 8), ("ArrowLeft", 7), ("End", last), ("ArrowRight", last), ("Home", 0)):
            page.keyboard.press(key)
            shows(page, step)
            assert page.url.endswith(f"#step={step}")
        page.locator("#on").click()
        shows(page, 1)
        page.locator("#steps button").nth(4).click()
        shows(page, 4)
        page.locator("#at").focus()
        page.keyboard.press("ArrowRight")
        shows(page, 5)
        page.evaluate("location.hash = '#step=3'")
        shows(page, 3)
        for _ in range(30):  # one after the other, faster than they are drawn
            page.keyboard.press("ArrowRight")
        page.keyboard.press("Home")
        shows(page, 0)


def test_a_screen_reader_finds_names_for_all_that_is_drawn(browser: Any, tmp_path: Path) -> None:
    tape = finding(*LEAK)
    with opened(browser, tmp_path / "finding.html", tape) as page:
        tree = page.locator("body").aria_snapshot()
        for part in ('slider "Step"', 'button "Step back"', 'region "What is broken"', 'region "All steps"'):
            assert part in tree
        assert page.locator(".squares li.none .unseen").first.inner_text() in tree
        assert page.locator("button").evaluate_all("all => all.every((one) => one.innerText || one.ariaLabel)")


def test_a_hostile_tape_shows_as_text(browser: Any, tmp_path: Path) -> None:
    wrong: list[str] = []
    with opened(browser, tmp_path / "hostile.html", hostile_tape(), wrong=wrong) as page:
        for step in range(len(hostile_tape()[1])):
            page.evaluate(f"location.hash = '#step={step}'")
            shows(page, step)
            assert page.locator("img").count() == 0
            assert page.locator("script:not(.part)").count() == 2  # its own, and the numbers that it needs
        assert HOSTILE.split("{{")[0] in page.locator("body").inner_text()
        # Nor does a script run that gets into the page in whichever way.
        page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))")
        assert page.evaluate("window.ran") is None
        assert [one for one in wrong if "Content Security Policy" not in one] == []
        assert len(wrong) == 1
        wrong.clear()


def test_without_its_script_the_finding_and_its_calls_are_there(browser: Any, tmp_path: Path) -> None:
    tape = finding(*LEAK)
    with opened(browser, tmp_path / "finding.html", tape, script=False) as page:
        text = page.locator("body").inner_text()
        assert all(str(step["text"]) in text for step in tape[1] if "text" in step)
        assert brief(tape[0]["finding"]["allowed"]) in text


def test_the_script_reads_every_scene_as_it_was_drawn(browser: Any, tmp_path: Path) -> None:
    tape = long_play(230)
    with opened(browser, tmp_path / "play.html", tape) as page:
        read = page.evaluate("steps => Promise.all(Array.from({ length: steps }, (_, step) => scene(0, step)))", 230)
        assert read == json.loads(json.dumps(drawn(tape)))


@pytest.mark.nightly
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("config", [LONG, WIDE], ids=["usual", "wide"])
def test_any_of_ten_thousand_steps_is_drawn_in_less_than_a_second(
    browser: Any, tmp_path: Path, config: Config, width: int
) -> None:
    """A second of the processor: whatever else a machine does."""
    file = tmp_path / "long.html"
    with opened(browser, file, long_play(10_001, config)) as page:
        assert file.stat().st_size <= 5_000_000
        page.set_viewport_size({"width": width, "height": 800})
        metrics = page.context.new_cdp_session(page)
        metrics.send("Performance.enable", {"timeDomain": "threadTicks"})
        times = []
        for step in (0, 9_999, 5_000, 5_001, 99, 100, 7_350, 10_000):
            started = busy(metrics)
            page.evaluate(f"location.hash = '#step={step}'")
            shows(page, step)
            times.append(busy(metrics) - started)
        print(f"{file.stat().st_size:,} bytes, slowest step {max(times):.3f} s")
        assert 0 < max(times) < 1


def busy(metrics: Any) -> float:
    """So many seconds of the processor a page has taken, with all that it draws."""
    found = {one["name"]: one["value"] for one in metrics.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


PUBLISHED = sorted(site_files.FOLDER.glob("*/*.jsonl"))


def opens(browser: Any, folder: Path, path: Path) -> None:
    """A published finding opens as a page that says what is broken, and shows the step that breaks it."""
    failure = load(path)
    file = folder / "published.html"
    file.write_text(site_files.page_of(path), encoding="utf-8")
    with opened(browser, file) as page:
        text = page.locator(".finding").inner_text()
        assert all(rule in text for rule in failure.rules)
        assert page.locator(".replay code").inner_text().startswith("kvlitmus replay docs/results/counterexamples/")
        if failure.steps:
            assert failure.rules[0] in page.locator("#now .broken").first.inner_text()
            assert page.locator("#drawn section").count() > 0
        else:
            assert "not on record" in page.locator("#where").inner_text()


@pytest.mark.parametrize("at", [0.1, 0.4, 0.8])
def test_published_findings_open_as_pages(browser: Any, tmp_path: Path, at: float) -> None:
    opens(browser, tmp_path, PUBLISHED[int(at * len(PUBLISHED))])


@pytest.mark.nightly
def test_every_published_finding_opens_as_a_page(browser: Any, tmp_path: Path) -> None:
    assert len(PUBLISHED) > 250
    for path in PUBLISHED:
        opens(browser, tmp_path, path)


def test_the_picture_of_the_readme_is_small_and_made_from_a_published_finding() -> None:
    assert (site_files.FOLDER / site_files.PICTURED).is_file()
    made = site_files.ROOT / "docs" / "assets" / "finding.png"
    assert made.read_bytes().startswith(b"\x89PNG")
    assert made.stat().st_size <= site_files.MOST_BYTES
