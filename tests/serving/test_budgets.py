"""Budgets against brute force: what they hold of the wanted links, and what they cost."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headtail.config import make_config
from headtail.evaluation.all_nodes import AllNodesTruth
from headtail.graph.csr import CSR
from headtail.graph.matrix import Matrix, Nodes
from headtail.graph.task import make_task
from headtail.serving import budgets as module
from headtail.serving.budgets import MOST_PROPOSED, STEPS, find_budgets
from headtail.serving.candidates import SOURCES, CandidateSource
from headtail.serving.second_stage import sources_of
from headtail.serving.sight import Sight
from tiny_runs import SMALL, small_graph


class Listed(CandidateSource):
    """Proposes lists that are given, the same for every head."""

    def __init__(self, name: str, tails: list[int]) -> None:
        self.__class__ = type(name, (Listed,), {"name": name})
        self.tails = tails

    def scores(self, heads: Nodes) -> Matrix:
        raise NotImplementedError

    def propose(self, heads: Tensor, most: int, known: CSR | None = None) -> Tensor:
        row = torch.tensor([*self.tails, *[-1] * most])[:most]
        return row.repeat(heads.numel(), 1)


def truth_of(wanted: list[int], nodes: int) -> AllNodesTruth:
    """One head that wants so many tails."""
    links = torch.tensor([[0] * len(wanted), wanted], dtype=torch.long)
    return AllNodesTruth(torch.tensor([0]), CSR.from_links(links, 1, nodes), CSR.from_links(links[:, :0], 1, nodes))


def held(lists: Mapping[str, list[int]], budgets: Mapping[str, int], wanted: list[int]) -> int:
    """Returns how many of the wanted tails are proposed."""
    return len({tail for name, budget in budgets.items() for tail in lists[name][:budget]} & set(wanted))


NODES = 1200
NOTHING = CSR.from_links(torch.empty(2, 0, dtype=torch.long), NODES)


@st.composite
def questions(draw: st.DrawFn) -> tuple[dict[str, list[int]], list[int]]:
    """Up to five sources that name 400 tails each, and up to 80 wanted ones, crowded at different places."""
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    lists = {f"s{place}": random.permutation(NODES)[:400].tolist() for place in range(draw(st.integers(1, 5)))}
    wanted: set[int] = set()
    for tails in lists.values():
        first, count = draw(st.integers(0, 350)), draw(st.integers(0, 40))
        wanted |= set(tails[first : first + count])
    return lists, sorted(wanted) or [1]


@given(question=questions())
def test_no_source_alone_holds_more(question: tuple[dict[str, list[int]], list[int]]) -> None:
    lists, wanted = question
    found = find_budgets([Listed(name, tails) for name, tails in lists.items()], truth_of(wanted, NODES), NOTHING)
    assert set(found) == set(lists)
    assert set(found.values()) <= set(STEPS)
    assert 0 < sum(found.values()) <= MOST_PROPOSED
    for name in lists:
        size = max(step for step in STEPS if step <= sum(found.values()))
        assert held(lists, found, wanted) >= held(lists, {name: size}, wanted)


@pytest.mark.parametrize("most", [10, 70, 300])
def test_no_more_are_proposed_than_may_be(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PROPOSED", most)
    lists = {"a": list(range(100, 400)), "b": list(range(500, 800))}
    found = find_budgets(
        [Listed(name, tails) for name, tails in lists.items()], truth_of(list(range(100, 800)), NODES), NOTHING
    )
    assert sum(found.values()) == most


def test_a_source_that_adds_nothing_proposes_nothing() -> None:
    lists = {"early": list(range(100, 200)), "late": [*range(300, 350), *range(100, 200)]}
    sources = [Listed(name, tails) for name, tails in lists.items()]
    assert find_budgets(sources, truth_of(list(range(100, 120)), NODES), NOTHING) == {"early": 20, "late": 0}
    assert find_budgets(sources, truth_of([900], NODES), NOTHING) == {"early": 20, "late": 20}


@pytest.mark.slow
@pytest.mark.parametrize("directed", [True, False])
def test_of_real_sources_no_one_alone_holds_more(directed: bool) -> None:
    task = make_task(small_graph(directed, dated=True), make_config("fast", settings=SMALL))
    sight, known = Sight.of(task.train_view, task.graph.features), task.train_view.out_rows
    sources = [SOURCES[name](sight) for name, missing in sources_of(sight).items() if missing is None]
    truth = AllNodesTruth.of(task, "valid")
    found = find_budgets(sources, truth, known)

    def share(budgets: Mapping[str, int]) -> float:
        right = 0
        for row, head in enumerate(truth.heads.tolist()):
            wanted = set(truth.wanted.block(row, row + 1).col.tolist())
            named = [
                source.propose(torch.tensor([head]), max(budgets.get(source.name, 0), 1), known)[0]
                for source in sources
                if budgets.get(source.name)
            ]
            right += len(wanted & set(torch.cat(named).tolist()))
        return right

    size = max(step for step in STEPS if step <= sum(found.values()))
    assert all(share(found) >= share({source.name: size}) for source in sources)
