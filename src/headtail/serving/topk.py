"""Exact top-k tails of many heads, block after block, in memory that does not grow with the graph."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.contract import Scorer
from headtail.errors import DataError
from headtail.evaluation.nan import refuse_counted_nan, refuse_nan
from headtail.graph.csr import CSR
from headtail.kernels.blocks import block_size, shrinking
from headtail.memory import hand_back_surplus
from headtail.serving.candidates import Lists

# Pairs scored at once where the caller sets no block sizes, and nothing is known about what a pair takes of a GPU.
PAIR_BUDGET = 2**20
# Even on huge graphs a block has this many heads, so that tails read from memory serve more than one.
MIN_BLOCK_HEADS = 8
# Below every real key: the score bits of a real one are those of −inf or higher.
_EXCLUDED = torch.iinfo(torch.int64).min


class TopK(NamedTuple):
    """The best tails of one block of heads.

    Attributes:
        heads: int64 [B].
        tails: int64 [B, k], best first, equal scores by smaller tail number; −1 where a head has fewer than k
            candidates.
        scores: float32 [B, k]; −inf where the tail is −1.
    """

    heads: Tensor
    tails: Tensor
    scores: Tensor


def top_k(
    scorer: Scorer,
    heads: Tensor,
    k: int,
    *,
    known: CSR | None = None,
    among: Tensor | None = None,
    block_heads: int | None = None,
    block_tails: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[TopK]:
    """Finds the k best tails of every head among all nodes, exactly.

    The head itself and its known links are left out. Results come block by block in the order of `heads`, on
    the scorer's device, so answers for all nodes need no more memory than a block and what the caller keeps.

    Args:
        scorer: scores the pairs.
        heads: [H] node numbers.
        k: how many tails per head.
        known: links to leave out, row h holding the tails of head h. None leaves out only the head itself.
        among: bool [N], the only tails to answer with; None: all.
        block_heads: heads scored at once; by default as many as suit the device. Where GPU memory does not last,
            there will be fewer.
        block_tails: tails scored at once; likewise.
        progress: called with the number of heads finished since the last call.

    Raises:
        DataError: k, the heads or the known links do not fit the graph, or scores are NaN.
        ConfigError: GPU memory does not do for a single pair.
    """
    check_asked(scorer.num_nodes, heads, k, known)
    heads = heads.to(scorer.device, torch.long)
    known = None if known is None else known.to(scorer.device)
    among = None if among is None else among.to(scorer.device)
    budget = block_size(scorer.device, scorer.cell_bytes, PAIR_BUDGET)
    sizes = block_sizes(heads.numel(), scorer.num_nodes, block_heads, block_tails, budget)

    def blocks() -> Iterator[TopK]:
        done, pairs = 0, sizes[0] * sizes[1]
        while done < heads.numel():
            work = partial(_first_block, scorer, heads[done:], k, known, among, sizes)
            found, pairs = shrinking(work, pairs, "finding the best tails")
            yield found
            done += found.heads.numel()
            if progress is not None:
                progress(found.heads.numel())
            hand_back_surplus()

    # An inner generator, so that wrong arguments are refused by the call and not by the first block.
    return blocks() if heads.numel() else iter(())


def block_sizes(
    num_heads: int,
    num_nodes: int,
    block_heads: int | None = None,
    block_tails: int | None = None,
    budget: int = PAIR_BUDGET,
) -> tuple[int, int]:
    """Returns (heads, tails) of a block: whole rows where they fit the budget of pairs, since those are cheapest."""
    if block_heads is None:
        wide = num_nodes if block_tails is None else max(1, min(block_tails, num_nodes))
        block_heads = max(budget // wide, MIN_BLOCK_HEADS)
    block_heads = max(1, min(block_heads, num_heads))
    if block_tails is None:
        block_tails = budget // block_heads
    return block_heads, max(1, min(block_tails, num_nodes))


def _first_block(
    scorer: Scorer,
    heads: Tensor,
    k: int,
    known: CSR | None,
    among: Tensor | None,
    sizes: tuple[int, int],
    pairs: int,
) -> TopK:
    """Answers the first of the heads, in blocks of the given sizes cut down to so many pairs: heads first, then tails.

    Raises:
        DataError: scores are NaN.
    """
    height, width = sizes
    height = max(1, min(height, pairs // width))
    width = max(1, min(width, pairs // height))
    block, bad = _best_tails(scorer, heads[:height], k, known, among, width)
    refuse_counted_nan(int(bad), block.heads.numel() * scorer.num_nodes, "candidates")
    return block


def best_candidates(lists: Lists, scores: Tensor, k: int) -> TopK:
    """Returns the k best candidates of every head by scores [B, T] of theirs, equals by smaller tail number.

    Raises:
        DataError: scores are NaN.
    """
    refuse_nan(scores, "candidates")
    found = scores.sort(dim=1, descending=True, stable=True)  # tails ascend
    tails = lists.tails.gather(1, found.indices[:, :k]).masked_fill(found.values[:, :k] == -torch.inf, -1)
    missing = (0, k - tails.shape[1])
    return TopK(lists.heads, F.pad(tails, missing, value=-1), F.pad(found.values[:, :k], missing, value=-torch.inf))


@torch.no_grad()
def _best_tails(
    scorer: Scorer, heads: Tensor, k: int, known: CSR | None, among: Tensor | None, width: int
) -> tuple[TopK, Tensor]:
    """Keeps a running top-k of one block of heads [B] over blocks of `width` tails; counts scores that are NaN."""
    owner = torch.arange(heads.numel(), device=heads.device)
    barred = heads
    if known is not None:
        of_head, entry = known.entries_of(heads)
        owner, barred = torch.cat([owner, of_head]), torch.cat([barred, known.col[entry]])
    best = torch.empty(heads.numel(), 0, dtype=torch.long, device=heads.device)
    bad = torch.zeros((), dtype=torch.long, device=heads.device)
    for first in range(0, scorer.num_nodes, width):
        last = min(first + width, scorer.num_nodes)
        scores = scorer.score_rows(heads, first, last).to(torch.float32)
        bad += scores.isnan().sum()
        _bar(scores, owner, barred - first)
        if among is not None:
            scores.masked_fill_(~among[first:last], torch.nan)
        best = torch.cat([best, _contenders(scores, first, k)], dim=1)
        best = best.topk(min(k, best.shape[1])).values
    tails, scores = _decode(best)
    return TopK(heads, tails, scores), bad


def _bar(scores: Tensor, row: Tensor, col: Tensor) -> None:
    """Sets those places of the scores [B, T] that exist to NaN, which from here on means: not to be answered."""
    here = (col >= 0) & (col < scores.shape[1])
    # Places outside add nothing to a column that exists: to pick those inside, a GPU would have to be waited for.
    more = torch.where(here, torch.nan, 0.0)
    scores.index_put_((row, col.clamp(0, scores.shape[1] - 1)), more, accumulate=True)


def _contenders(scores: Tensor, first: int, k: int) -> Tensor:
    """Returns keys [B, C] that hold the k best of scores [B, T] (all of them where T is smaller)."""
    tails = torch.arange(first, first + scores.shape[1], device=scores.device)[None]
    k = min(k, scores.shape[1])
    if scores.device.type == "cpu":
        scores, tails = _narrowed(scores, tails.expand_as(scores), k)
    return _keys(scores, tails).topk(min(k, scores.shape[1]), sorted=False).values


def _narrowed(scores: Tensor, tails: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the scores and tails [B, C] among which the k best are, where these are few.

    A CPU finds the k best among keys slowly. A GPU does not, and would have to be waited for to know how many remain.
    """
    low = scores.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    chosen = low >= low.topk(k, sorted=False).values.amin(dim=1, keepdim=True)
    most = int(chosen.sum(dim=1).max())
    if most >= scores.shape[1] // 4:
        return scores, tails
    # Nearly always the k best and few equals of the last: only these need keys. A cumulative sum places each
    # row's contenders side by side.
    row, col = chosen.nonzero(as_tuple=True)
    place = chosen.cumsum(dim=1)[row, col] - 1
    few_scores, few_tails = (
        torch.full((scores.shape[0], most), fill, dtype=values.dtype, device=values.device).index_put_(
            (row, place), values[row, col]
        )
        for values, fill in ((scores, torch.nan), (tails, 0))
    )
    return few_scores, few_tails


def _keys(scores: Tensor, tails: Tensor) -> Tensor:
    """Packs scores [B, C] and tails [B, C] or [1, C] into int64 keys that sort as we rank.

    NaN scores rank below everything. The upper half orders as the score does, the lower half prefers small tail
    numbers. No two keys of a row are equal, so `topk`, which breaks ties as it likes, has none to break.
    """
    # Adding 0.0 turns −0.0 into 0.0: they are equal as scores but not as bits.
    bits = (scores + 0.0).view(torch.int32)
    keys = (_flip_negatives(bits).long() << 32) | (0xFFFFFFFF - tails)
    return keys.masked_fill_(scores.isnan(), _EXCLUDED)


def _decode(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the tails and scores of keys; those of excluded ones are −1 and −inf."""
    excluded = keys == _EXCLUDED
    tails = (0xFFFFFFFF - (keys & 0xFFFFFFFF)).masked_fill_(excluded, -1)
    scores = _flip_negatives((keys >> 32).to(torch.int32)).view(torch.float32)
    return tails, scores.masked_fill(excluded, float("-inf"))


def _flip_negatives(bits: Tensor) -> Tensor:
    """Maps float32 bits to int32 that order as the floats do, and back: it is its own inverse.

    Negative floats order backwards when read as integers, so all their bits but the sign are flipped.
    """
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def check_asked(nodes: int, heads: Tensor, k: int, known: CSR | None) -> None:
    """Refuses questions that do not fit a graph of so many nodes.

    Raises:
        DataError: k, the heads or the known links do not.
    """
    if k < 1:
        raise DataError(f"k must be at least 1, not {k}.")
    if k > nodes - 1:
        raise DataError(f"k = {k} tails were asked for, but a head has only {nodes - 1} other nodes; lower k.")
    if heads.dim() != 1:
        raise DataError(f"heads must be one-dimensional, not {list(heads.shape)}.")
    if heads.numel() and not 0 <= int(heads.min()) <= int(heads.max()) < nodes:
        raise DataError(
            f"heads name the nodes {int(heads.min())} to {int(heads.max())}, but the graph has the nodes "
            f"0 to {nodes - 1}."
        )
    if known is not None and (known.num_rows, known.num_cols) != (nodes, nodes):
        raise DataError(f"the known links are {known.num_rows} × {known.num_cols}, but the scorer has {nodes} nodes.")
