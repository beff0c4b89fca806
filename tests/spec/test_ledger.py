"""The ledger: each call has a row, each cell an answer, and each answer can be given there."""

from __future__ import annotations

import inspect
import json

import pytest

from kvlitmus import zoo
from kvlitmus.conformance.cli import main
from kvlitmus.conformance.ports.template import all_ports
from kvlitmus.conformance.report import ledger
from kvlitmus.mutants import freedoms
from kvlitmus.spec.interface.ports import PORTS
from kvlitmus.spec.law.actions import ACTIONS, What
from kvlitmus.spec.law.on import On
from kvlitmus.spec.ledger import read
from kvlitmus.spec.ledger.cells import Amount, Cell, Column, Line, Refusal, by, no
from kvlitmus.spec.ledger.read import FREEDOMS, LEDGER, also, depths, faults, gaps, judged_on, saying
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.words.profile import Profile

RULES = all_rules()


def row(call: str, how: str = "") -> Line:
    """One row."""
    return next(one for one in LEDGER if (one.call, one.how) == (call, how))


def test_nothing_is_wrong_with_the_ledger() -> None:
    assert list(faults(RULES)) == []
    assert {one.call for one in LEDGER} == {method for port in PORTS.values() for method in port}


def test_each_amount_is_an_operand_of_its_call() -> None:
    methods = {name: getattr(port.protocol, name) for port in all_ports().values() for name in port.methods}
    for one in LEDGER:
        if one.amount is Amount.COUNT:
            named = list(inspect.signature(methods[one.call]).parameters.values())[1:]
            assert named[one.at].annotation == "int", one


def profile_of(id: str) -> Profile | None:
    """What a legal cache declares, of the zoo too."""
    room, _, name = id.partition(".")
    return zoo.target_of(name).profile if room == "zoo" and name in zoo.ZOO else freedoms.profile_of(id)


def test_each_freedom_is_used_by_a_legal_cache_that_declares_it() -> None:
    assert list(freedoms.faults(profile_of)) == []
    assert "batches: zoo.batches is no legal cache" in list(freedoms.faults(freedoms.profile_of))
    assert "watermark: zoo.watermark doesn't declare watermark" in list(freedoms.faults(lambda _: Profile()))


def changed(call: str, column: Column, cell: Cell) -> Line:
    """A row with another cell."""
    found = row(call)
    return found._replace(cells={**found.cells, column: cell})


@pytest.mark.parametrize(
    ("planted", "complaint"),
    [
        (changed("evict", Column.LEAST, Cell()), "evict, at least: it answers nothing"),
        (changed("evict", Column.LEAST, by("EVICT-99")), "evict, at least: there is no rule EVICT-99"),
        (changed("evict", Column.LEAST, by("POOL-07")), "evict, at least: POOL-07 isn't judged there"),
        (changed("evict", Column.LEAST, by("", later="STORE-01")), "STORE-01 is judged behind no call of flat caches"),
        (changed("evict", Column.MOST, by("", free="whim")), "evict, at most: there is no freedom 'whim'"),
        (changed("evict", Column.MOST, by("EVICT-06")._replace(without="why")), "says that the question doesn't arise"),
        (row("evict")._replace(refusal=Refusal.NONE), "evict: its refusal and its cell don't agree"),
        (row("evict")._replace(call="evict_all"), "evict_all is no method of any port"),
        (row("evict")._replace(call="lock"), "lock has two rows"),
    ],
)
def test_a_wrong_row_is_found(planted: Line, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = LEDGER.index(row("evict"))
    monkeypatch.setattr(read, "LEDGER", (*LEDGER[:here], planted, *LEDGER[here + 1 :]))

    assert [one for one in faults(RULES) if complaint in one]


def test_a_call_and_an_occasion_without_a_row_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "LEDGER", [one for one in LEDGER if one.call != "load_back_within"])

    found = list(faults(RULES))

    assert "load_back_within has no row" in found
    assert f"the occasion {On.LIMITED_LOAD_BACK} is of no row" in found


def test_what_a_call_may_change_is_what_the_table_of_actions_says() -> None:
    assert row("evict").changes == ACTIONS[On.EVICT]
    assert row("end", "kept").changes.keys() == ACTIONS[On.END].keys() | ACTIONS[On.FINISH].keys()
    assert What.EVICT in row("component_evict").changes and not row("view").changes


def test_no_row_but_of_looks_and_faults_changes_nothing_by_oversight() -> None:
    silent = {one.name for one in LEDGER if not one.look and not one.changes}

    assert silent <= {
        *("free_group_begin", "free: in a group", "raw_match", "raw_insert", "raw_free", "raw_begin", "raw_prefetch"),
        *(
            "fail_host_alloc",
            "fail_copy",
            "set_clock",
            "poke",
            "attach",
            "loaded",
            "discard",
            "page_hashes",
            "plan_prefetch",
        ),
        *(one.name for one in LEDGER if one.call.startswith(("store_", "ranks_local", "sparse_"))),
        "component_attach",
    }


def test_depths_are_those_of_a_rule_and_of_what_says_it_from_less() -> None:
    assert depths(RULES["EVICT-05"], RULES) == (0, 3)
    assert saying(by("EVICT-05", later="TREE-20"), RULES, 0) == ("EVICT-20", "TREE-20")
    assert "EVICT-05" in saying(by("EVICT-05"), RULES, 3)
    assert "TREE-03" in also(row("match"), RULES)
    assert not judged_on(RULES["EVICT-01"], row("match"))


def test_what_answers_a_question_is_not_listed_beside_it_again() -> None:
    for line in LEDGER:
        answers = {id for cell in line.cells.values() for id in (*cell.rules, *cell.later)}

        assert answers.isdisjoint(also(line, RULES)), line.name
    assert also(row("evict"), RULES)


def test_gaps_are_told_by_the_command_and_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--ledger"]) == 0
    printed = capsys.readouterr().out
    page = ledger.page()

    assert f"{len(LEDGER)} rows, {len(list(gaps()))} gaps" in printed
    for line, column, text in gaps():
        assert f"gap: {line.name}, {column.value}: {text}" in printed
        assert text in page
    assert all(one.meaning in page for one in FREEDOMS.values())
    assert not [text for text in page.splitlines() if "|  |" in text]


def test_rows_are_chosen_by_call_and_by_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--ledger", "--json", "load_back"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["cells"]["granted"]["rules"] == ["LOAD-03"]

    assert main(["rules", "--ledger", "--markdown", "LOAD-03"]) == 0
    printed = capsys.readouterr().out
    assert [name for name in ("`load_back`", "`load_back_within`", "`ranks_ask: load`") if name not in printed] == []
    assert "`evict`" not in printed


def test_a_name_of_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--ledger", "evikt"]) == 2
    assert "evict" in capsys.readouterr().err


def test_a_cell_can_say_that_its_question_does_not_arise() -> None:
    assert no("why").without == "why"
    assert not any(no("why")[:4])
