"""The Triton kernel behind `links`."""

import torch
import triton
import triton.language as tl
from torch import Tensor

ENTRIES = 512


@triton.jit
def _linked(
    place_ptr, node_ptr, kept_ptr, expanded_ptr, col_ptr, key_ptr, seen_ptr, entries, targets, sources,
    BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < entries
    node = tl.load(node_ptr + i, inside, 0)
    key = tl.minimum(tl.load(place_ptr + node, inside, 0), sources)
    tl.store(key_ptr + i, key, inside)
    tl.store(col_ptr + i, tl.minimum(key, sources - 1).to(tl.int64), inside)
    # Whoever writes here writes the same.
    kept = inside & (tl.load(kept_ptr + i, inside, 0) != 0) & (key < sources)
    tl.store(seen_ptr + key, kept, kept)
    opened = tl.load(expanded_ptr + i, i < targets, 0) != 0
    tl.store(seen_ptr + i, opened, opened & (i < targets))


def linked(place: Tensor, node: Tensor, kept: Tensor, expanded: Tensor, sources: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns what `links.Linked` is made of."""
    entries, targets, device = node.numel(), expanded.numel(), place.device
    col = torch.empty(entries, dtype=torch.int64, device=device)
    keys = torch.empty(entries, dtype=torch.int32, device=device)
    seen = torch.zeros(sources, dtype=torch.bool, device=device)
    _linked[(triton.cdiv(max(1, entries, targets), ENTRIES),)](
        place, node, kept, expanded, col, keys, seen, entries, targets, sources, BLOCK=ENTRIES
    )
    return col, keys, seen
