"""Training gives the numbers that it gave before: close ones on any machine, the same bits on the same kind of one."""

import json
from typing import Any

import pytest

from golden_runs import GOLDEN, RUNS, figures, machine

# MRR: of some 15 links, one may change places with a negative that is nearly level.
CLOSE = {"losses": {"rel": 1e-4}, "valid_mrr": {"abs": 0.04}}


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return found


def test_every_run_has_its_numbers(golden: dict[str, Any]) -> None:
    assert list(golden["runs"]) == list(RUNS)
    hashes = [run["weights"] for run in golden["runs"].values()]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_training_gives_what_it_gave(name: str, golden: dict[str, Any]) -> None:
    found, wanted = figures(name), golden["runs"][name]
    for figure, within in CLOSE.items():
        assert found[figure] == pytest.approx(wanted[figure], **within), figure
    here, there = machine(), golden["made_by"]
    others = [f"{what} {here[what]} instead of {there[what]}" for what in there if here[what] != there[what]]
    if others:
        pytest.skip(f"close, and not to be compared bit by bit: {', '.join(others)}")
    assert found == wanted
