"""Evaluation in blocks: scores come and go, only ranks and counts stay."""

from collections.abc import Callable

import torch
from torch import Tensor

from headtail.contract import PairScorer
from headtail.errors import DataError
from headtail.evaluation.metrics import (
    Metric,
    count_hits,
    count_rivals,
    hits,
    hits_threshold,
    mrr,
    ranks_from_counts,
    refuse_nan,
)
from headtail.memory import hand_back_surplus

Progress = Callable[[int], None]


@torch.no_grad()
def evaluate(
    scorer: PairScorer,
    positives: Tensor,
    negatives: Tensor,
    metric: str,
    block_pairs: int = 2**18,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Ranks held-out links against negatives.

    The metric decides how `negatives` is read, not its shape: two positives with K tails each have the same
    shape as K pairs.

    Args:
        scorer: scores the pairs; that of an undirected graph already averages both orientations.
        positives: [2, P] held-out links.
        negatives: for "mrr" [P, K], the tails that compete for each positive's head; for "hits@K" [2, M],
            pairs that compete with every positive.
        metric: "mrr" or "hits@K".
        block_pairs: how many pairs are scored at once.
        progress: called with the number of pairs scored since the last call.

    Returns:
        Fractions 0 … 1 by name: mrr, hits@1, hits@3, hits@10; or hits@20, hits@50, hits@100 and the asked K.

    Raises:
        ConfigError: the metric is unknown.
        DataError: shapes or node numbers do not fit, or scores are NaN.
    """
    asked = Metric.parse(metric)
    _check(scorer, positives, negatives, asked)
    if block_pairs < 1:
        raise ValueError(f"block_pairs must be at least 1, not {block_pairs}")
    report = _handing_back(progress or (lambda _pairs: None))
    if asked.k is None:
        found = ranks_in_blocks(scorer, positives, negatives, block_pairs, report)
        return {"mrr": mrr(found)} | {f"hits@{k}": hits(found, k) for k in asked.reported_ks}
    return _hits_in_blocks(scorer, positives, negatives, asked.reported_ks, block_pairs, report)


def ranks_in_blocks(scorer: PairScorer, positives: Tensor, tails: Tensor, block_pairs: int, report: Progress) -> Tensor:
    """Returns float64 [P], the rank of each positive [2, P] among the pairs of its head with tails [P, K]."""
    width = max(1, min(tails.shape[1], block_pairs))
    height = max(1, block_pairs // width)
    parts = []
    for links, rivals in zip(torch.split(positives, height, dim=1), torch.split(tails, height), strict=True):
        heads, targets = _pairs(scorer, links)
        own = scorer.score(heads, targets)
        above, level = (torch.zeros(heads.numel(), dtype=torch.long, device=own.device) for _ in range(2))
        report(heads.numel())
        # A single positive can have more negatives than a block holds, so columns are cut as well.
        for columns in torch.split(rivals, width, dim=1):
            block = columns.to(scorer.device, torch.long)
            scores = scorer.score(heads.repeat_interleave(block.shape[1]), block.reshape(-1))
            more_above, more_level = count_rivals(own, scores.view_as(block))
            above, level = above + more_above, level + more_level
            report(block.numel())
        parts.append(ranks_from_counts(above, level).cpu())
    return torch.cat(parts)


def _hits_in_blocks(
    scorer: PairScorer,
    positives: Tensor,
    negatives: Tensor,
    ks: tuple[int, ...],
    block_pairs: int,
    report: Progress,
) -> dict[str, float]:
    best = torch.empty(0, device=scorer.device)
    for links in torch.split(negatives, block_pairs, dim=1):
        scores = refuse_nan(scorer.score(*_pairs(scorer, links)), "negatives")
        best = torch.cat([best, scores])
        # The K-th best negative is all that counts, so the largest K bounds what is kept.
        best = best.topk(min(max(ks), best.numel())).values
        report(links.shape[1])
    thresholds = {k: hits_threshold(best, k) for k in ks}
    counts = dict.fromkeys(ks, 0)
    for links in torch.split(positives, block_pairs, dim=1):
        scores = scorer.score(*_pairs(scorer, links))
        for k in ks:
            counts[k] += count_hits(scores, thresholds[k])
        report(links.shape[1])
    return {f"hits@{k}": counts[k] / positives.shape[1] for k in ks}


def _handing_back(report: Progress) -> Progress:
    """Blocks differ in what they need, and leave memory in pieces."""

    def told(pairs: int) -> None:
        report(pairs)
        hand_back_surplus()

    return told


def _pairs(scorer: PairScorer, links: Tensor) -> tuple[Tensor, Tensor]:
    heads, tails = links.to(scorer.device, torch.long)
    return heads, tails


def _check(scorer: PairScorer, positives: Tensor, negatives: Tensor, metric: Metric) -> None:
    if positives.dim() != 2 or positives.shape[0] != 2 or positives.shape[1] == 0:
        raise DataError(f"positives must be a non-empty [2, P], not {list(positives.shape)}.")
    count = positives.shape[1]
    if metric.k is None and (negatives.dim() != 2 or negatives.shape[0] != count):
        raise DataError(
            f"{metric.name} ranks each positive among its own tails: negatives must be [{count}, K] for "
            f"{count} positives, not {list(negatives.shape)}."
        )
    if metric.k is not None and (negatives.dim() != 2 or negatives.shape[0] != 2):
        raise DataError(
            f"{metric.name} ranks all positives against shared pairs: negatives must be [2, M], "
            f"not {list(negatives.shape)}."
        )
    for what, nodes in (("positives", positives), ("negatives", negatives)):
        if nodes.is_floating_point() or nodes.dtype == torch.bool:
            raise DataError(f"{what} must be node numbers (integers), not {nodes.dtype}.")
        if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < scorer.num_nodes:
            raise DataError(
                f"{what} name the nodes {int(nodes.min())} to {int(nodes.max())}, but the graph has the "
                f"nodes 0 to {scorer.num_nodes - 1}."
            )
