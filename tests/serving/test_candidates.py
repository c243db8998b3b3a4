"""Lists of candidates against brute force over what sources propose: whom they hold, and what is said of each."""

import numpy as np
import pytest
import torch
from sights import SIGHTS, sight_of

from headtail.graph.csr import CSR
from headtail.serving.candidates import SOURCES, Candidates
from headtail.serving.cells import FEWEST_HEADS, MOST_CELLS, MOST_HEADS, heads_at_once
from headtail.serving.second_stage import sources_of
from headtail.serving.sight import Sight
from random_graphs import random_links

KINDS = [kind for kind in SIGHTS if kind != "described alike"]


def by_hand(candidates: Candidates, head: int, barred: set[int], least: int) -> set[int]:
    """Returns the candidates of a head: by budgets; then by budgets of `least`; then the most popular."""
    n = candidates.sight.num_nodes
    best: dict[str, list[int]] = {}
    for source in candidates.sources:
        said = source.scores(np.array([head])).toarray()[0]
        allowed = [tail for tail in range(n) if said[tail] > 0 and tail not in barred]
        best[source.name] = sorted(allowed, key=lambda tail: (-said[tail], tail))
    budgets = {name: budget for name, budget in candidates.budgets.items() if budget}
    found = {tail for name, budget in budgets.items() for tail in best[name][:budget]}
    if len(found) < least:
        found |= {tail for name in budgets for tail in best[name][:least]}
    popular = [int(tail) for tail in candidates.sight.popular if tail not in barred | found]
    return found | set(popular[: max(0, least - len(found))])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("least", [1, 6, 110])
def test_lists_hold_what_is_proposed(kind: str, least: int) -> None:
    sight = SIGHTS[kind]()
    n = sight.num_nodes
    names = [name for name, missing in sources_of(sight).items() if missing is None]
    budgets = {name: place % 3 for place, name in enumerate(names)}
    candidates = Candidates([SOURCES[name](sight) for name in names], budgets)
    heads = torch.arange(n).flip(0)[: heads_at_once(n)]
    known = CSR.from_links(random_links(n, n - 1, True), n)
    for among in (None, torch.arange(n) % 3 != 1):
        lists = candidates.lists(heads, known, among, least)
        for row, head in enumerate(heads.tolist()):
            barred = {head, *known.block(head, head + 1).col.tolist()}
            barred |= set() if among is None else {tail for tail in range(n) if not among[tail]}
            wanted = sorted(by_hand(candidates, head, barred, least))
            tails = lists.tails[row].tolist()
            assert tails == wanted + [-1] * (len(tails) - len(wanted))
            for source in candidates.sources:
                said = source.scores(heads.numpy()).toarray()[row]
                wanted_values = [said[tail] if tail >= 0 else 0 for tail in tails]
                assert lists.values[source.name][row].tolist() == pytest.approx(wanted_values, rel=1e-4, abs=1e-6)


def test_short_lists_are_the_same_candidates() -> None:
    sight = sight_of(True)
    candidates = Candidates([SOURCES["paths"](sight), SOURCES["back"](sight)], {"paths": 2, "back": 1})
    heads = torch.arange(30)
    assert torch.equal(candidates.lists(heads).tails, candidates.lists(heads, least=29).tails)  # all there are
    assert candidates.lists(heads, least=1).tails.shape[1] <= 3


def test_a_block_is_small_and_has_a_few_heads_all_the_same() -> None:
    assert heads_at_once(2) == heads_at_once(1000) == MOST_HEADS
    assert heads_at_once(MOST_CELLS // (FEWEST_HEADS + 1)) == FEWEST_HEADS + 1
    assert heads_at_once(10**9) == FEWEST_HEADS


def test_who_was_sought_after_most_comes_first() -> None:
    sight = Sight.of(sight_of(False, 3).view)
    degree = sight.in_degree
    assert sight.popular.tolist() == sorted(range(30), key=lambda node: (-degree[node], node))
