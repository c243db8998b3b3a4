"""Top-k answers by several ranks: each answers its share of the heads, and all get the whole answer in order."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from headtail.ranks import current
from headtail.serving.topk import TopK

# Heads that a rank answers before answers are joined: what is held does not grow with the graph, and ranks that are
# done wait for the others once per so many heads.
HEADS_AT_ONCE = 512
# Answers some heads block by block, and tells how many are done.
Answer = Callable[[Tensor, Callable[[int], None] | None], Iterator[TopK]]


def answered_across(
    answer: Answer, heads: Tensor, k: int, progress: Callable[[int], None] | None = None
) -> Iterator[TopK]:
    """Finds what `answer` finds for heads [H], in their order, by all ranks together; each gets all blocks."""
    ranks = current()
    alone = answer(heads, progress)  # also refuses wrong arguments at once
    if not ranks.several:
        return alone

    def blocks() -> Iterator[TopK]:
        for chunk in torch.split(heads, HEADS_AT_ONCE * ranks.size):
            own = list(answer(ranks.share(chunk), None))
            tails = torch.cat([chunk.new_empty(0, k), *(block.tails for block in own)])
            scores = torch.cat([torch.empty(0, k, device=chunk.device), *(block.scores for block in own)])
            yield TopK(chunk, ranks.whole(tails, chunk.numel()), ranks.whole(scores, chunk.numel()))
            if progress is not None:
                progress(chunk.numel())

    return blocks()
