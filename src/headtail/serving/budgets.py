"""How many tails each source may propose: found on validation links, by how many are then among the candidates."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from headtail.evaluation.all_nodes import AllNodesTruth
from headtail.graph.csr import CSR
from headtail.serving.candidates import CandidateSource

# Budgets that a source may have, and tails that all sources propose together, doubles counted.
STEPS = (0, 10, 20, 40, 70, 100, 150, 200, 300)
MOST_PROPOSED = 700


def find_budgets(sources: Sequence[CandidateSource], truth: AllNodesTruth, known: CSR) -> dict[str, int]:
    """Returns a budget for every source, by name.

    Step by step, the source whose next tails hold the most links that no other proposes, per tail, is given more.
    """
    places = {source.name: _places(source, truth, known) for source in sources}
    budgets = dict.fromkeys(places, 0)
    while True:
        missed = torch.stack([place >= budgets[name] for name, place in places.items()]).all(dim=0)
        best, gain = None, 0.0
        for name, place in places.items():
            for more in (step for step in STEPS if step > budgets[name]):
                if sum(budgets.values()) - budgets[name] + more <= MOST_PROPOSED:
                    each = float((missed & (place < more)).sum()) / (more - budgets[name])
                    best, gain = ((name, more), each) if each > gain else (best, gain)
        if best is None:
            return _or_any(budgets)
        budgets[best[0]] = best[1]


def _or_any(budgets: Mapping[str, int]) -> dict[str, int]:
    """Returns the budgets; where no source holds any of the links, every source may propose a few."""
    return dict(budgets) if any(budgets.values()) else dict.fromkeys(budgets, STEPS[2])


def _places(source: CandidateSource, truth: AllNodesTruth, known: CSR) -> Tensor:
    """Returns int64 [L], the place of every wanted link in the list of the source, the end where it is not in it."""
    row, tail = truth.wanted.row, truth.wanted.col
    proposed = source.propose(truth.heads, STEPS[-1], known)
    found = proposed[row] == tail[:, None]
    return torch.where(found.any(dim=1), found.int().argmax(dim=1), STEPS[-1])
