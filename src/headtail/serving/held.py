"""What candidates hold: of the tails that the first scorer ranks highest of all nodes, the share among them."""

import torch
from torch import Tensor

from headtail.contract import Scorer
from headtail.graph.csr import CSR
from headtail.serving.candidates import Candidates
from headtail.serving.cells import heads_at_once
from headtail.serving.cost import pairs_within
from headtail.serving.topk import top_k

# The links of a head, from the last kind's most on.
KINDS = {"few": 3, "some": 20, "many": None}
BEST = 10
# Heads of a kind that are asked, and so many at least where they take longer than so many seconds by estimate.
MOST_HEADS, LEAST_HEADS, SECONDS = 10, 3, 10.0
HEADS_COUNTED = 100


def kinds_of(heads: Tensor, links: CSR) -> dict[str, Tensor]:
    """Returns heads [H] by how many links they have, in their order; only kinds that there are."""
    degrees, found, least = links.degrees[heads], {}, 0
    for kind, most in KINDS.items():
        chosen = degrees >= least if most is None else (degrees >= least) & (degrees <= most)
        if bool(chosen.any()):
            found[kind] = heads[chosen]
        least = 0 if most is None else most + 1
    return found


def share_held(candidates: Candidates, scorer: Scorer, heads: Tensor, known: CSR) -> dict[str, float]:
    """Returns by kind of head the share of its ten best tails of all nodes that are candidates for ten answers.

    Args:
        candidates: of the view that the scorer is of.
        heads: in the order in which they may be asked.
        known: the view's links, which are not answered with.
    """
    affordable = pairs_within(scorer, SECONDS) // (len(KINDS) * scorer.num_nodes)
    most = min(MOST_HEADS, max(LEAST_HEADS, affordable))
    return {kind: _share(candidates, scorer, some[:most], known) for kind, some in kinds_of(heads, known).items()}


def candidates_per_head(candidates: Candidates, heads: Tensor, known: CSR) -> float:
    """Returns the mean number of candidates for ten answers, over the first of the heads."""
    n = candidates.sight.num_nodes
    blocks = torch.split(heads[:HEADS_COUNTED], heads_at_once(n))
    counts = [(candidates.lists(block, known, least=_answers(n)).tails >= 0).sum(dim=1) for block in blocks]
    return float(torch.cat(counts).double().mean())


def _share(candidates: Candidates, scorer: Scorer, heads: Tensor, known: CSR) -> float:
    k = _answers(scorer.num_nodes)
    best = torch.cat([block.tails.cpu() for block in top_k(scorer, heads, k, known=known)])
    held = torch.zeros_like(best, dtype=torch.bool)
    first = 0
    for block in torch.split(heads, heads_at_once(scorer.num_nodes)):
        tails = candidates.lists(block, known, least=k).tails
        rows = slice(first, first + block.numel())
        held[rows] = (best[rows, :, None] == tails[:, None, :]).any(dim=2)
        first += block.numel()
    there = best >= 0
    # A head that is linked to all nodes has no ten best, and nothing is missing.
    return float(held[there].double().mean()) if bool(there.any()) else 1.0


def _answers(num_nodes: int) -> int:
    return min(BEST, num_nodes - 1)
