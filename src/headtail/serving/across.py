"""Top-k answers by several ranks: each answers its share of the heads, and all get the whole answer in order."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
from torch import Tensor

from headtail.contract import Scorer
from headtail.evaluation.scoring import refuse_seen
from headtail.graph.csr import CSR
from headtail.progress import counting
from headtail.ranks import current
from headtail.serving.topk import TopK, top_k

# Heads that a rank answers before answers are joined: what is held does not grow with the graph, and ranks that are
# done wait for the others once per so many heads.
HEADS_AT_ONCE = 512


def top_k_across(
    scorer: Scorer,
    heads: Tensor,
    k: int,
    *,
    known: CSR | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[TopK]:
    """Finds what `top_k` finds, in the order of `heads`, by all ranks together; each gets all blocks."""
    ranks = current()
    alone = top_k(scorer, heads, k, known=known, progress=progress)  # also refuses wrong arguments at once
    if not ranks.several:
        return alone
    known = None if known is None else known.to(scorer.device)

    def blocks() -> Iterator[TopK]:
        for chunk in torch.split(heads.to(scorer.device, torch.long), HEADS_AT_ONCE * ranks.size):
            own = list(top_k(scorer, ranks.share(chunk), k, known=known))
            tails = torch.cat([chunk.new_empty(0, k), *(block.tails for block in own)])
            scores = torch.cat([torch.empty(0, k, device=chunk.device), *(block.scores for block in own)])
            yield TopK(chunk, ranks.whole(tails, chunk.numel()), ranks.whole(scores, chunk.numel()))
            if progress is not None:
                progress(chunk.numel())

    return blocks()


def best_tails(scorer: Scorer, heads: Tensor, k: int, *, known: CSR | None = None, shown: str | None = None) -> Tensor:
    """Returns int64 [H, k] on the CPU: the tails that `top_k_across` finds, as one table to be judged.

    Args:
        shown: what a bar on a terminal says is done; there is none by default.

    Raises:
        DataError: the scorer was made from a view of all links.
    """
    refuse_seen(scorer)
    with nullcontext() if shown is None else counting(shown, heads.numel()) as advance:
        blocks = [block.tails.cpu() for block in top_k_across(scorer, heads, k, known=known, progress=advance)]
    return torch.cat([torch.empty(0, k, dtype=torch.long), *blocks])
