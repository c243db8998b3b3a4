"""Evaluation in blocks: scores come and go, only ranks and counts stay."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from headtail.contract import Scorer
from headtail.errors import DataError
from headtail.evaluation.metrics import Metric, hits, mrr, ranks_from_counts
from headtail.evaluation.nan import refuse_counted_nan
from headtail.evaluation.scoring import refuse_seen
from headtail.kernels.blocks import block_size, shrinking
from headtail.memory import hand_back_surplus
from headtail.ranks import Ranks, current
from headtail.training.precision import mixed

Progress = Callable[[int], None]

# Pairs scored at once, where nothing is known about what a pair takes of a GPU.
BLOCK_PAIRS = 2**18
WHAT = "ranking held-out links"


@torch.no_grad()
def evaluate(
    scorer: Scorer,
    positives: Tensor,
    negatives: Tensor,
    metric: str,
    block_pairs: int | None = None,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Ranks held-out links against negatives.

    The metric decides how `negatives` is read, not its shape: two positives with K tails each have the same
    shape as K pairs.

    A GPU multiplies in tf32: a positive and its negatives are scored by one product and rounded alike, and scores are
    summed in float32, so equal pairs stay equal and different ones do not become so.

    Of several ranks, each scores its share of the links and of the negatives, and all return the same.

    Args:
        scorer: scores the pairs; that of an undirected graph already averages both orientations.
        positives: [2, P] held-out links.
        negatives: for "mrr" [P, K], the tails that compete for each positive's head; for "hits@K" [2, M],
            pairs that compete with every positive.
        metric: "mrr" or "hits@K".
        block_pairs: how many pairs are scored at once, at least one positive with one negative; by default what
            suits the device. Where GPU memory does not last, there will be fewer.
        progress: called with the number of pairs scored since the last call.

    Returns:
        Fractions 0 … 1 by name: mrr, hits@1, hits@3, hits@10; or hits@20, hits@50, hits@100 and the asked K.

    Raises:
        ConfigError: the metric is unknown, or GPU memory does not do for a single pair.
        DataError: shapes or node numbers do not fit, scores are NaN, or the scorer was made from a view of all links.
    """
    refuse_seen(scorer)
    asked = Metric.parse(metric)
    _check(scorer, positives, negatives, asked)
    block_pairs = block_size(scorer.device, scorer.pair_bytes, BLOCK_PAIRS) if block_pairs is None else block_pairs
    if block_pairs < 1:
        raise ValueError(f"block_pairs must be at least 1, not {block_pairs}")
    report, ranks = _handing_back(progress or (lambda _pairs: None)), current()
    count, own = positives.shape[1], ranks.share(positives, dim=1)
    with mixed("tf32" if scorer.device.type == "cuda" else "fp32", scorer.device):
        if asked.k is None:
            found = ranks_in_blocks(scorer, own, ranks.share(negatives), block_pairs, report)
            found = ranks.whole(found, count)
            return {"mrr": mrr(found)} | {f"hits@{k}": hits(found, k) for k in asked.reported_ks}
        own_negatives = ranks.share(negatives, dim=1)
        best = _best_in_blocks(scorer, own_negatives, max(asked.reported_ks), block_pairs, report)
        best = _best_of_all(ranks, best, min(max(asked.reported_ks), negatives.shape[1]))
        hits_of = _count_hits(scorer, own, best, asked.reported_ks, block_pairs, report)
        return {f"hits@{k}": hit / count for k, hit in zip(asked.reported_ks, ranks.sum(hits_of).tolist(), strict=True)}


def ranks_in_blocks(scorer: Scorer, positives: Tensor, tails: Tensor, block_pairs: int, report: Progress) -> Tensor:
    """Returns float64 [P], the rank of each positive [2, P] among the pairs of its head with tails [P, K]."""
    (links, rivals), parts, done = tails.shape, [torch.zeros(4, 0, dtype=torch.long, device=scorer.device)], 0
    while done < links:
        counts, block_pairs = shrinking(partial(_count_rivals, scorer, positives, tails, done), block_pairs, WHAT)
        parts.append(counts)
        done += counts.shape[1]
        report(counts.shape[1] * (1 + rivals))
    above, level, bad_positives, bad_rivals = torch.cat(parts, dim=1).cpu()
    refuse_counted_nan(int((bad_positives > 0).sum()), links, "positives")
    refuse_counted_nan(int(bad_rivals.sum()), tails.numel(), "negatives")
    return ranks_from_counts(above, level)


def _count_rivals(scorer: Scorer, positives: Tensor, tails: Tensor, first: int, block_pairs: int) -> Tensor:
    """Counts what stands above the positives from `first` on, as many as a block of pairs holds.

    Returns:
        int64 [4, B] on the scorer's device, which nobody waits for: for every positive the rivals with a higher, and
        with a higher or equal score, and how often its own and its rivals' scores were not numbers.
    """
    # A single positive can have more rivals than a block holds, so columns are cut as well.
    width = max(1, min(tails.shape[1], block_pairs - 1))
    height = max(1, block_pairs // (width + 1))
    heads, targets = positives[:, first : first + height].to(scorer.device, torch.long)
    found = torch.zeros(4, heads.numel(), dtype=torch.long, device=heads.device)
    for columns in torch.split(tails[first : first + height], width, dim=1):
        # The positive stands beside its rivals: scored by another product, equal ones could differ in the last bits.
        block = torch.cat([targets[:, None], columns.to(scorer.device, torch.long)], dim=1)
        scores = scorer.score_tails(heads, block)
        own, rivals = scores[:, :1], scores[:, 1:]
        seen = (rivals > own, rivals >= own, own.isnan(), rivals.isnan())
        found += torch.stack([each.sum(dim=1) for each in seen])
    return found


def _best_in_blocks(scorer: Scorer, negatives: Tensor, k: int, block_pairs: int, report: Progress) -> Tensor:
    """Returns the k best scores of negatives [2, M], or all M of them, in descending order."""
    best, done = torch.empty(0, device=scorer.device), 0
    bad = torch.zeros((), dtype=torch.long, device=scorer.device)
    while done < negatives.shape[1]:
        scores, block_pairs = shrinking(partial(_score_links, scorer, negatives, done), block_pairs, WHAT)
        bad = bad + scores.isnan().sum()
        # The K-th best negative is all that counts, so the largest K bounds what is kept.
        best = torch.cat([best, scores])
        best = best.topk(min(k, best.numel())).values
        done += scores.numel()
        report(scores.numel())
    refuse_counted_nan(int(bad), negatives.shape[1], "negatives")
    return best


def _best_of_all(ranks: Ranks, best: Tensor, k: int) -> Tensor:
    """Returns the k best of the scores that the ranks have; each has k, or fewer if these are all it was given."""
    if not ranks.several:
        return best
    filled = torch.cat([best[:k], best.new_full((k - min(k, best.numel()),), -torch.inf)])
    return ranks.each(filled).flatten().topk(k).values


def _count_hits(
    scorer: Scorer, positives: Tensor, best: Tensor, ks: tuple[int, ...], block_pairs: int, report: Progress
) -> Tensor:
    """Returns int64 [ks], the positives that stand above the K-th of the best negatives, which descend.

    With fewer than K negatives, every positive is a hit.
    """
    reached = [k for k in ks if k <= best.numel()]
    thresholds = torch.stack([best[k - 1] for k in reached]) if reached else best[:0]
    counts, done = torch.zeros(len(reached) + 1, dtype=torch.long, device=scorer.device), 0
    while done < positives.shape[1]:
        scores, block_pairs = shrinking(partial(_score_links, scorer, positives, done), block_pairs, WHAT)
        above = (scores[:, None] > thresholds).sum(dim=0)
        counts = counts + torch.cat([above, scores.isnan().sum()[None]])
        done += scores.numel()
        report(scores.numel())
    *found, bad = counts.tolist()
    refuse_counted_nan(bad, positives.shape[1], "positives")
    hits_of = dict(zip(reached, found, strict=True))
    return torch.tensor([hits_of.get(k, positives.shape[1]) for k in ks])


def _score_links(scorer: Scorer, links: Tensor, first: int, block_pairs: int) -> Tensor:
    """Returns the scores of so many links [2, M], from `first` on."""
    heads, tails = links[:, first : first + block_pairs].to(scorer.device, torch.long)
    return scorer.score_pairs(heads, tails)


def _handing_back(report: Progress) -> Progress:
    """Blocks differ in what they need, and leave memory in pieces."""

    def told(pairs: int) -> None:
        report(pairs)
        hand_back_surplus()

    return told


def _check(scorer: Scorer, positives: Tensor, negatives: Tensor, metric: Metric) -> None:
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
        low, high = (int(end) for end in nodes.aminmax()) if nodes.numel() else (0, 0)
        if not 0 <= low <= high < scorer.num_nodes:
            raise DataError(
                f"{what} name the nodes {low} to {high}, but the graph has the nodes 0 to {scorer.num_nodes - 1}."
            )
