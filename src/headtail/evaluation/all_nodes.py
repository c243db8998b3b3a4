"""What lists of answers are worth: held-out links ranked among all nodes.

The rank of a held-out link is 1 + the number of nodes above its tail that are not the head itself, nor tails of its
training links, its validation links (where the test is judged) or its other held-out links.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headtail.errors import DataError
from headtail.evaluation.heads import HEADS_SAMPLED
from headtail.evaluation.parts import held_out_part
from headtail.graph.csr import CSR
from headtail.graph.task import LinkTask
from headtail.graph.view import both_ways

# Tails asked for: among them are 50 that count, where a head has at most 60 other held-out and validation links.
ANSWERS = 110
SEED = 0
# The lengths of list that shares of links, and means over heads, are told for.
SHORT, LONG, OF_HEADS = 10, 50, 20

# Names the k best tails of heads [H] as int64 [H, k], best first, −1 where there are no more; neither the head itself
# nor its training links are among them.
Ranked = Callable[[Tensor, int], Tensor]


def sampled_heads(links: Tensor, most: int, seed: int = SEED) -> Tensor:
    """Returns int64 [H], H ≤ `most`: distinct heads of links [2, P], drawn without replacement, in the order drawn."""
    distinct = np.unique(links[0].numpy())
    drawn = np.random.default_rng(seed).choice(distinct, min(most, distinct.size), replace=False)
    return torch.from_numpy(drawn.astype(np.int64))


@dataclass(frozen=True, eq=False)
class AllNodesTruth:
    """The tails that lists are to name, prepared once for any number of lists.

    Attributes:
        heads: int64 [H], whom to ask.
        wanted: the held-out tails; row i holds those of heads[i].
        skipped: tails that take no place in a list, likewise: those of validation links, where the test is judged.
    """

    heads: Tensor
    wanted: CSR
    skipped: CSR

    @staticmethod
    def of(task: LinkTask, part: str, heads_sampled: int = HEADS_SAMPLED, seed: int = SEED) -> "AllNodesTruth":
        """Prepares the validation or test links ("valid", "test") of some heads; undirected links count from both ends.

        The test links are not looked at where validation links are judged.
        """
        if heads_sampled < 1:
            raise DataError(f"heads_sampled must be at least 1 to rank links among all nodes, not {heads_sampled}.")
        n, valid = task.graph.num_nodes, task.split.valid.positives
        links = _from_heads(held_out_part(task, part).positives, task)
        heads = sampled_heads(links, heads_sampled, seed)
        seen = _from_heads(valid if part == "test" else valid[:, :0], task)
        return AllNodesTruth(heads, *(_rows_of(heads, each, n) for each in (links, seen)))

    @property
    def answers(self) -> int:
        """How many tails to ask for: all there are on a small graph."""
        return min(ANSWERS, self.wanted.num_cols - 1)

    def judge(self, tails: Tensor) -> dict[str, float]:
        """Judges tails [H, K], best first, −1 where there are no more, without the head and its training links.

        Returns:
            recall@10, recall@50: the share of links of a rank that high.
            mrr@50: mean of 1 / rank, 0 where the rank is beyond 50.
            head_recall@20, head_ndcg@20: means over heads, as recommender papers define them: the other held-out links
                of a head take places.
            heads, links: how many were judged.
        """
        if tails.dim() != 2 or tails.shape[0] != self.heads.numel():
            raise DataError(
                f"the lists of {self.heads.numel()} heads must be [{self.heads.numel()}, K], not {list(tails.shape)}."
            )
        tails = tails.cpu().long()
        row = torch.arange(tails.shape[0]).repeat_interleave(tails.shape[1])
        named = tails.clamp(min=0).reshape(-1)
        counted = (tails >= 0) & ~self.skipped.contains(row, named).view_as(tails)
        right = counted & self.wanted.contains(row, named).view_as(tails)
        above = (counted & ~right).cumsum(dim=1)  # of a right answer: the wrong ones before it
        place = counted.cumsum(dim=1) - 1
        ranked = right & (above < LONG)
        early = right & (place < OF_HEADS)
        discount = torch.arange(2, OF_HEADS + 2, dtype=torch.float64).log2().reciprocal()
        gain = torch.where(early, discount[place.clamp(0, OF_HEADS - 1)], 0.0).sum(dim=1)
        sizes = self.wanted.degrees
        links = int(sizes.sum())
        return {
            f"recall@{SHORT}": int((right & (above < SHORT)).sum()) / links,
            f"recall@{LONG}": int(ranked.sum()) / links,
            f"mrr@{LONG}": float(torch.where(ranked, (above + 1).double().reciprocal(), 0.0).sum()) / links,
            f"head_recall@{OF_HEADS}": float((early.sum(dim=1).double() / sizes).mean()),
            f"head_ndcg@{OF_HEADS}": float((gain / discount.cumsum(0)[sizes.clamp(max=OF_HEADS) - 1]).mean()),
            "heads": self.heads.numel(),
            "links": links,
        }


def evaluate_lists(task: LinkTask, part: str, heads_sampled: int, ranked: Ranked) -> dict[str, dict[str, float]]:
    """Asks for the lists of sampled heads and judges them.

    Returns:
        The figures as `all_nodes`, with the `seconds` that it took. Nothing for 0 heads, and where validation links
        that were trained on would be judged: no list names them.
    """
    if heads_sampled == 0 or (part, task.protocol) == ("valid", "val-as-train"):
        return {}
    start = time.perf_counter()
    truth = AllNodesTruth.of(task, part, heads_sampled)
    figures = truth.judge(ranked(truth.heads, truth.answers))
    return {"all_nodes": figures | {"seconds": time.perf_counter() - start}}


def _from_heads(links: Tensor, task: LinkTask) -> Tensor:
    return links if task.graph.directed else both_ways(links)


def _rows_of(heads: Tensor, links: Tensor, num_nodes: int) -> CSR:
    """Returns the tails of each of the distinct heads [H] among links [2, P], as rows in the order of the heads."""
    ascending, order = heads.sort()
    place = torch.searchsorted(ascending, links[0].contiguous()).clamp_(max=heads.numel() - 1)
    asked = ascending[place] == links[0]
    return CSR.from_links(torch.stack([order[place[asked]], links[1, asked]]), heads.numel(), num_nodes)
