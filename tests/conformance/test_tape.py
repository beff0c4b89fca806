"""Tapes: every value that a port speaks of comes back as it was, and a damaged file says where."""

from __future__ import annotations

import gzip
import json
import lzma
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.support.compact import compact
from kvlitmus.conformance.tape import forms, schema
from kvlitmus.conformance.tape.calls import CALLS, DOES, LOOKS, look_key, look_of
from kvlitmus.conformance.tape.changes import Looks, change, changed, news, same
from kvlitmus.conformance.tape.compiled import ROWS, Rows
from kvlitmus.conformance.tape.forms import (
    Anything,
    Array,
    Bytes,
    Either,
    Fixed,
    Form,
    FormError,
    Json,
    Reader,
    Record,
    Scalar,
    Table,
    form_of,
)
from kvlitmus.conformance.tape.lines import TapeError, TapeReader, TapeWriter
from kvlitmus.conformance.tape.operands import Operands, Thing
from kvlitmus.conformance.tape.recorder import Recording
from kvlitmus.spec.interface import PORTS, Exchange, Hit, NodeView, Send, Stored, View
from kvlitmus.spec.words.units import Key
from tests.conformance.support import liars, schemas

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
PLAIN = st.recursive(
    SCALARS | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=2)
    ),
    max_leaves=6,
)
"""Whatever a cache may answer."""

JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
)

RESERVED = st.dictionaries(st.sampled_from(["$", "@", "~", "several", "raised", "of"]), st.integers(), min_size=1)


def promised(form: Form) -> st.SearchStrategy[Any]:
    """Values of the promised type."""
    if isinstance(form, Scalar):
        kinds: Mapping[type, st.SearchStrategy[Any]] = {
            int: st.integers() | st.integers(2**1_000, 2**1_001),
            float: st.floats(allow_nan=False),
            str: st.text(max_size=4),
            bool: st.booleans(),
            type(None): st.none(),
        }
        return st.one_of([kinds[kind] for kind in form.kinds])
    if isinstance(form, Bytes):
        return st.binary(max_size=4)
    if isinstance(form, Array):
        return st.lists(promised(form.of), max_size=3).map(form.kind)
    if isinstance(form, Fixed):
        return st.tuples(*map(promised, form.of))
    if isinstance(form, Table):
        return st.dictionaries(promised(form.key), promised(form.of), max_size=2)
    if isinstance(form, Record):
        return st.builds(form.kind, *[promised(form.of[name]) for name in form.fields])
    if isinstance(form, Either):
        return st.one_of([promised(one) for one in form.of])
    return SCALARS | st.tuples(st.integers(), st.integers())


def there_and_back(form: Form, value: object, *, strict: bool = False) -> object:
    """A value, written to a file and read again."""
    text = json.dumps(form.write(value, Operands()), allow_nan=False)
    return form.read(json.loads(text), Operands(strict=strict))


def alike(one: object, other: object) -> bool:
    """Whether two values are the same, and of the same types; a sequence may be a list or a tuple."""
    plain = type(one) in (list, tuple) and type(other) in (list, tuple)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        same_type = plain or type(one) is type(other)
        return same_type and len(one) == len(other) and all(alike(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(key in other and alike(value, other[key]) for key, value in one.items())
    return type(one) is type(other) and one == other


EVERY_FORM = {
    **{f"{name}.{key}": form for name, call in {**CALLS, **DOES}.items() for key, form in call.parameters.items()},
    **{f"{name}->": call.answer for name, call in {**CALLS, **DOES}.items()},
    **{name: form_of(kind) for name, kind in forms.RECORDS.items()},
    "exchange": form_of(Exchange),
}


def test_every_method_of_every_port_has_its_forms() -> None:
    assert {name for names in PORTS.values() for name in names} <= CALLS.keys()
    assert CALLS.keys() >= LOOKS and DOES.keys() >= {"exists", "get", "put", "alloc", "protect"}
    assert len(EVERY_FORM) > 250 and sum(isinstance(one, Anything) for one in EVERY_FORM.values()) < 60


@settings(max_examples=150)
@given(st.data())
def test_what_is_promised_comes_back_and_needs_no_tag(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(EVERY_FORM)))
    value = data.draw(promised(EVERY_FORM[name]))
    back = there_and_back(EVERY_FORM[name], value, strict=True)
    assert alike(value, back) and type(back) is type(value), name


@settings(max_examples=150)
@given(st.data())
def test_what_is_not_promised_comes_back_as_well(data: st.DataObject) -> None:
    form = EVERY_FORM[data.draw(st.sampled_from(sorted(EVERY_FORM)))]
    other = data.draw(PLAIN | RESERVED | promised(EVERY_FORM[data.draw(st.sampled_from(sorted(EVERY_FORM)))]))
    assert alike(other, there_and_back(form, other))


@settings(max_examples=150)
@given(st.data())
def test_what_is_compiled_does_as_the_form_does(data: st.DataObject) -> None:
    form = EVERY_FORM[data.draw(st.sampled_from(sorted(EVERY_FORM)))]
    value = data.draw(promised(form) | PLAIN | RESERVED)
    told = form.write(value, Operands())
    assert same(told, form._write(value, Operands()))
    for one in (told, data.draw(JSON)):
        for strict in (False, True):
            assert repr(read(form.read, one, strict)) == repr(read(form._read, one, strict))


def read(reader: Reader, told: Json, strict: bool) -> object:
    """What comes of reading, or the error."""
    try:
        return reader(told, Operands(strict=strict))
    except FormError as error:
        return error.expected


@pytest.mark.parametrize("name", sorted(forms.RECORDS))
def test_a_form_is_never_taken_for_another(name: str) -> None:
    kind = forms.RECORDS[name]
    value = tuple.__new__(kind, range(len(kind._fields)))  # type: ignore[attr-defined]
    for form in (EVERY_FORM["match->"], EVERY_FORM["view->"], EVERY_FORM["alloc->"], forms.ANYTHING, form_of(kind)):
        back = there_and_back(form, value)
        assert type(back) is kind and back == value
    short = tuple.__new__(kind, ())
    assert there_and_back(form_of(kind), short) == ()


def test_the_plain_form_is_what_people_write() -> None:
    hit, operands = CALLS["match"], Operands()
    assert hit.arguments((Key("a", (1, 2)),), {}, operands)[0] == [
        {"tokens": [1, 2], "namespace": "a", "bigram": False}
    ]
    assert hit.answered(Hit(4, [4, 5, 6, 7]), operands) == {"length": 4, "slots": [4, 5, 6, 7]}
    assert CALLS["insert"].answered(Stored(3), operands) == {"already": 3}
    view = View((1,), [NodeView(-1, None, ((1, 2),), (8,))])
    assert CALLS["view"].answered(view, operands) == {
        "free": [1],
        "nodes": [{"parent": -1, "namespace": None, "units": [[1, 2]], "slots": [8]}],
    }
    assert CALLS["sparse_view"].parameters == {} and form_of(Exchange).write(Send(1, ("a",), (2,)), operands) == {
        "to": 1,
        "layout": ["a"],
        "values": [2],
    }


class Odd:
    """An answer that nobody expects."""


def test_deviations_are_told_apart() -> None:
    operands = Operands()
    write = CALLS["alloc"].answered
    odd = Odd()
    assert write({"a": 1}, operands) == {"$": "map", "of": [["a", 1]]}
    assert write(math.inf, operands) == {"$": "float", "of": "inf"}
    assert write([liars.FakeInt(3)], operands) == [3]
    assert write(Hit(1), operands) == {"$": "Hit", "of": {"length": 1}}
    assert [write(one, operands) for one in (odd, Odd(), odd)] == [{"$": "object", "of": at} for at in (0, 1, 0)]
    looped: list[object] = []
    looped.append(looped)
    assert '{"$": "object", "of": 2}' in json.dumps(write(looped, operands))
    assert CALLS["store_get"].answered(["YQ==", b"a"], operands) == [{"$": "text", "of": "YQ=="}, "YQ=="]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"$": "tuple", "of": 3}, "a list"),
        ({"$": "nothing", "of": 3}, "a tagged value"),
        ({"$": "Hit", "of": {"slots": []}}, "with length"),
        ({"$": "map", "of": [[[1], {}], [{"$": "list", "of": []}, 2]]}, "a scalar or a tuple"),
        ({"$": "float", "of": "x"}, '"nan"'),
        ({"@": 7}, "what a step before gave"),
    ],
)
def test_a_bad_tag_is_an_error(told: Json, expected: str) -> None:
    with pytest.raises(FormError, match=expected):
        CALLS["alloc"].told(told, Operands())


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([[1]], "the key of match to be an object"),
        ([{"tokens": [1, "a"]}], "the key of match to be a whole number"),
        ([], r"match\(key\)"),
        ([{"tokens": []}, 1], r"match\(key\)"),
    ],
)
def test_arguments_of_another_form_are_an_error(args: list[Json], expected: str) -> None:
    with pytest.raises(FormError, match=expected):
        CALLS["match"].given(args, {}, Operands(strict=True))


def test_handles_are_named_by_what_gave_them() -> None:
    """A match gives a handle, a lock the very same as its receipt: each use names what gave it last."""
    writing, reading, node = Operands(), Operands(), Odd()
    lines: list[tuple[str, list[Json], Json]] = []
    for step, (method, args, answer) in enumerate(
        [
            ("match", (Key(None, (1,)),), Hit(1, [4], node)),
            ("lock", (node,), node),
            ("match", (Key(None, (1,)),), Hit(1, [4], (3, 4))),
            ("unlock", (node,), None),
            ("lock", ((3, 4),), "receipt"),
            ("unlock", ("receipt",), None),
        ],
        1,
    ):
        writing.step = step
        given, _ = CALLS[method].arguments(args, {}, writing)
        lines.append((method, given, CALLS[method].answered(answer, writing)))
    assert lines[0][2] == {"length": 1, "slots": [4], "handle": {"@": [1, "handle"]}}
    assert lines[1] == ("lock", [{"@": [1, "handle"]}], {"@": [1, "handle"]})
    assert lines[3][1] == [{"@": 2}] and lines[4][1:] == ([{"@": [3, "handle"]}], "receipt")
    assert lines[5][1] == ["receipt"]
    found = []
    for reading.step, (method, json_args, told) in enumerate(lines, 1):
        found.append((CALLS[method].given(json_args, {}, reading)[0], CALLS[method].told(told, reading)))
    handle = found[0][1].handle  # type: ignore[attr-defined]
    assert type(handle) is Thing and found[1] == ([handle], handle) and found[3][0] == [handle]
    assert found[4][0] == [found[2][1].handle] != [handle]  # type: ignore[attr-defined]


def test_looks_have_their_arguments_in_their_key() -> None:
    key = look_key("peek", ["host", [4, 5]])
    assert (
        key == 'peek("host",[4,5])' and look_of(key) == ("peek", ["host", [4, 5]]) and look_of("sizes") == ("sizes", [])
    )
    with pytest.raises(FormError):
        look_of("peek(3")


JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=300)
@given(JSON, st.data())
def test_changes_give_what_was_seen(old: Json, data: st.DataObject) -> None:
    new = data.draw(JSON | st.just(old).map(json.dumps).map(json.loads))
    told = json.loads(json.dumps(change(old, new)))
    assert alike(new, changed(old, told)) and len(json.dumps(told)) <= max(len(json.dumps(new)), 10)
    assert alike(new, changed(old, json.loads(compact(news(old, new)))))
    assert compact(new) == json.dumps(new, separators=(",", ":"))


def test_a_change_says_little() -> None:
    nodes: list[Json] = [{"parent": at - 1, "slots": [at], "locks": 0} for at in range(50)]
    after: list[Json] = [*nodes[:20], {**nodes[20], "locks": 1}, *nodes[21:]]  # type: ignore[dict-item]
    old: Json = {"free": list(range(100)), "nodes": nodes}
    assert change(old, {"free": list(range(100)), "nodes": after}) == {"~": [[["nodes", 20], "locks", 1]]}
    assert change(old, {"free": [*range(7), *range(9, 100)], "nodes": nodes}) == {"~": [[["free"], 7, 2, []]]}
    assert change({"a": 1, "b": nodes}, {"b": nodes}) == {"~": [[[], "a"]]}
    assert change([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]) == {"~": []} and change([1], [1]) == [1]
    assert changed([1], [True]) == [True] and change([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, True]) != {"~": []}


def test_rows_are_remembered_to_the_last_type() -> None:
    """The same row is the same object; one that is only equal is another."""
    form, things, plain = form_of(View), Operands(rows=Rows()), Operands()
    rows: list[NodeView] = [NodeView(-1, None, (1, 2), (4, 5)), NodeView(0, "a", (3,), (6,), 0, 1, 2)]
    odd: tuple[Any, ...] = (
        *(rows[0]._replace(parent=value) for value in (True, -1.0, None)),  # type: ignore[arg-type]
        *(rows[0]._replace(slots=value) for value in ([4, 5], (4, True), (4, 5.0), b"45")),  # type: ignore[arg-type]
        *(tuple(rows[0]), [1], 7, tuple.__new__(NodeView, (1, 2))),
    )
    first: Any = form.write(View([7], rows), things)
    again: Any = form.write(View([8], [NodeView(-1, None, (1, 2), (4, 5)), rows[1]]), things)
    assert first["nodes"] is again["nodes"] and first["free"] != again["free"]
    for one in odd:
        for nodes in ([one, rows[1]], [rows[0], one], rows):
            told: Any = form.write(View([7], nodes), things)
            assert alike(told, form.write(View([7], nodes), plain)), one
            read: Any = form.read(told, things)
            assert alike(read, form.read(told, plain)) and read.nodes[1] is form.read(told, things).nodes[1]  # type: ignore[attr-defined]
    one, two = (form.read({**first, "free": [free]}, things) for free in (7, 8))
    assert one.nodes is two.nodes and one.free != two.free  # type: ignore[attr-defined]
    many: Any = form.write(View([], [rows[0]._replace(parent=at) for at in range(2 * ROWS)]), things)
    for _ in range(2):
        assert alike(form.read(many, things), form.read(many, plain))


@pytest.mark.parametrize(
    "told", [[[["nodes", 3], 0, 1, []]], [[[], 5, 1, []]], [[[], "a"]], [[[], 0]], [7], [[[], 0, True, []]], 3]
)
def test_a_change_that_fits_nothing_is_an_error(told: Json) -> None:
    with pytest.raises(FormError):
        changed([1, 2], {"~": told})
    with pytest.raises(FormError, match="not seen before"):
        Looks().read({"view": {"~": []}})


def test_looks_that_answered_several_times() -> None:
    writing, reading = Looks(), Looks()
    one, two = json.loads(json.dumps([[1] * 9, [2] * 9]))
    for seen in ({"a": [one]}, {"a": [one, two], "b": [3]}, {"a": [two]}):
        written = json.loads(json.dumps(writing.written(seen)))
        assert reading.read(written) == seen
    assert written == {"a": {"~": []}}


HEADER = {"config": {"page_size": 4, "pages": 8}, "ports": ["pool"], "target": "a:b"}
STEPS: Sequence[dict[str, Json]] = (
    {"looks": {"available": 32}},
    {"call": "alloc", "args": [4], "answer": [4, 5, 6, 7], "looks": {"available": 28}},
    {"call": "free", "args": [[4, 5, 6, 7]], "raised": "ValueError: no"},
)


def tape(path: Path, plays: int = 2) -> Path:
    """A file with the same play so many times."""
    with TapeWriter(path) as writer:
        for _ in range(plays):
            writer.play(HEADER)  # type: ignore[arg-type]
            for step in STEPS:
                writer.step(step)
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.xz"])
def test_a_file_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    with TapeReader(str(tape(tmp_path / name))) as reader:
        plays = [(header, list(steps)) for header, steps in reader.plays()]
        assert reader.torn is None
    assert [header.line for header, _ in plays] == [1, 5] and plays[0][0].config.pages == 8
    for _, steps in plays:
        assert [one.number for one in steps] == [0, 1, 2] and [one.data for one in steps] == list(STEPS)
        assert steps[1].looks == {"available": 28} and steps[2].raised == "ValueError: no"
    with TapeReader(str(tmp_path / name)) as reader:
        assert [header.target for header, _ in reader.plays()] == ["a:b", "a:b"]  # steps that nobody takes are skipped


def test_half_a_last_line_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tape(tmp_path / "a.jsonl", 1)
    raw = path.read_bytes()
    path.write_bytes(raw[:-9])
    with TapeReader(str(path)) as reader:
        assert len(list(reader)) == 2
        assert reader.torn == (4, f"it breaks off after {len(raw.splitlines()[-1]) - 8} bytes")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_packed_file_that_breaks_off_is_told(tmp_path: Path, pack: Any) -> None:
    path = tape(tmp_path / "a.jsonl", 300)
    path.write_bytes(pack(path.read_bytes())[:-20])
    with TapeReader(str(path)) as reader:
        read = sum(1 for _ in reader)
        assert read > 100 and reader.torn is not None and "its end mark" in reader.torn[1]


@pytest.mark.parametrize(
    ("at", "line", "expected"),
    [
        (0, '{"kind": "something"}', 'line 1: expected a header with "kind": "kvlitmus tape"'),
        (0, '{"kind": "kvlitmus tape", "format": 2}', "line 1: expected format 1"),
        (0, "", "line 1: expected a JSON object, got a blank line"),
        (2, '{"call": "alloc", "args": 3, "answer": 1}', "line 3: expected args to be a list"),
        (2, '{"call": "alloc", "args": [3]}', "line 3: expected either an answer or what was raised, got neither"),
        (2, '{"call": "alloc", "answer": 3, "raised": "x"}', "got both"),
        (2, '{"call": 3}', "line 3: expected a call such as"),
        (2, '{"call": "alloc", "answer": 3, "speed": 1}', "'speed' too"),
        (2, '{"call": "alloc", "answer": NaN}', "NaN is no JSON"),
        (2, '{"call": "alloc", "answer": 1, "did": [3]}', "line 3: expected did to be a list"),
        (2, "[1]", "line 3: expected a JSON object, got [1]"),
        (2, '{"looks": {}}', "line 3: expected a call such as"),
    ],
)
def test_a_damaged_line_says_what_was_expected(tmp_path: Path, at: int, line: str, expected: str) -> None:
    lines = tape(tmp_path / "a.jsonl", 1).read_text(encoding="utf-8").splitlines()
    lines[at] = line
    path = tmp_path / "b.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(TapeError) as error, TapeReader(str(path)) as reader:
        list(reader)
    assert expected in str(error.value) and str(error.value).startswith(str(path))


# -- the schema ----------------------------------------------------------------------------------------------------


def test_the_committed_schema_is_that_of_the_forms() -> None:
    assert schemas.schema("tape") == json.loads(schema.text()), "run tools/pins.py"


@pytest.mark.parametrize(
    ("target", "config"),
    [
        (specimen, Config(page_size=4, bigram=True)),
        (specimen, TIER_CONFIGS[2]),
        *((specimen, configs[0]) for configs in plan.KINDS.values()),
    ],
)
def test_every_line_of_a_recorded_play_fits_the_schema(target: Any, config: Config) -> None:
    recording = Recording(target)
    item = Item(kind="random", config=config, seed=1, ops=60)
    result = engine.run_item(recording, item, Options(shrink_trials=0))
    assert not result.error
    lines = [json.loads(line) for line in (recording.record(item) or b"").splitlines()]
    assert len({line.get("call") for line in lines}) > 3
    loaded = schemas.schema("tape")
    for line in lines:
        name = "header" if "kind" in line else f"call_{line['call']}" if "call" in line else "fresh"
        assert schemas.fits(line, "tape", {**loaded, "anyOf": [{"$ref": f"#/$defs/{name}"}]}) == [], line


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"call": "alloc", "args": [4, 5]}, "args"),
        ({"call": "match", "answer": {"length": 1, "colour": 2}}, "answer"),
        ({"call": "free", "args": [[4, "a", []]]}, "args"),
        ({"call": "evict", "speed": 1}, "unknown field speed"),
    ],
)
def test_a_line_that_does_not_fit_is_told(line: dict[str, Any], complaint: str) -> None:
    loaded = schemas.schema("tape")
    found = schemas.fits(line, "tape", {**loaded, "anyOf": [{"$ref": f"#/$defs/call_{line['call']}"}]})
    assert found, line
    assert complaint in " ".join(schemas.complaints(line, loaded["$defs"][f"call_{line['call']}"], loaded))
