"""Scores of many pairs, block by block, so that only the scores themselves need memory."""

import torch
from torch import Tensor

from headtail.contract import Scorer
from headtail.errors import DataError
from headtail.evaluation.metrics import Metric
from headtail.graph.graph import HeldOut

BLOCK_PAIRS = 2**16


def refuse_seen(scorer: Scorer) -> None:
    """Refuses to judge a scorer by links that it looks at. All that judges asks this first.

    Raises:
        DataError: it was made from a view of all links.
    """
    if scorer.sees_held_out:
        raise DataError(
            "this scorer looks at the held-out links, so what it says of them proves nothing; judge one that is made "
            "from the task's train_view or test_view."
        )


@torch.no_grad()
def scores_of(
    scorer: Scorer, heads: Tensor, tails: Tensor, tails_per_head: int = 1, block_pairs: int = BLOCK_PAIRS
) -> Tensor:
    """Returns float32 [T] on the CPU: the scores of tails [T], of which each head [T / tails_per_head] has its own."""
    device = scorer.device
    scores = []
    for first in range(0, tails.numel(), block_pairs):
        places = torch.arange(first, min(first + block_pairs, tails.numel()), device=tails.device)
        pairs = heads[places // tails_per_head], tails[places]
        scores.append(scorer.score_pairs(*(nodes.to(device, torch.long) for nodes in pairs)).cpu())
    return torch.cat([torch.empty(0), *scores])


def held_out_scores(scorer: Scorer, held_out: HeldOut, metric: str) -> tuple[Tensor, Tensor]:
    """Scores held-out links and all their negatives, which the metric says how to read.

    Returns:
        links: float32 [P] on the CPU.
        negatives: float32 [Q] on the CPU; Q = P · K for "mrr", M for "hits@K".

    Raises:
        DataError: the scorer was made from a view of all links.
    """
    refuse_seen(scorer)
    assert held_out.negatives is not None
    links, negatives = held_out.positives, held_out.negatives
    own = scores_of(scorer, links[0], links[1])
    if Metric.parse(metric).k is None:
        return own, scores_of(scorer, links[0], negatives.reshape(-1), negatives.shape[1])
    return own, scores_of(scorer, negatives[0], negatives[1])
