"""The Triton kernel behind `operands`: sums of one or two weights each, which may lie anywhere."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.adam_triton import CHUNK, chunks_of


@triton.jit
def _make(address_ptr, narrow_ptr, owner_ptr, first_ptr, size_ptr, sums, CHUNK: tl.constexpr):
    owner = tl.load(owner_ptr + tl.program_id(0))
    place = tl.load(first_ptr + tl.program_id(0)) + tl.arange(0, CHUNK)
    inside = place < tl.load(size_ptr + owner)
    one, other = tl.load(address_ptr + owner), tl.load(address_ptr + sums + owner)
    to = tl.load(address_ptr + 2 * sums + owner)
    value = tl.load(one.to(tl.pointer_type(tl.float32)) + place, inside, 0.0)
    if other != 0:
        value += tl.load(other.to(tl.pointer_type(tl.float32)) + place, inside, 0.0)
    if tl.load(narrow_ptr + owner) != 0:
        tl.store(to.to(tl.pointer_type(tl.bfloat16)) + place, value.to(tl.bfloat16), inside)
    else:
        tl.store(to.to(tl.pointer_type(tl.float32)) + place, value, inside)


def table_of(sums: list[tuple[tuple[Tensor, ...], Tensor]]) -> tuple[Tensor, ...]:
    """Returns what `make` needs to know of float32 weights, one or two for a sum, and of where each sum goes.

    That is int64 [3, sums], where these begin, 0 for no second weight; int32 [sums], whether the sum is bf16, the only
    other kind there is; and the chunks that sums are cut into.
    """
    device = sums[0][1].device
    ends = [(parts[0], parts[1] if len(parts) > 1 else None, to) for parts, to in sums]
    addresses = [[0 if each is None else each.data_ptr() for each in end] for end in ends]
    narrow = torch.tensor([to.dtype == torch.bfloat16 for _, to in sums], dtype=torch.int32, device=device)
    table = torch.tensor(addresses, dtype=torch.int64, device=device).T.contiguous()
    return table, narrow, *chunks_of([to.numel() for _, to in sums], device)


def make(table: tuple[Tensor, ...]) -> None:
    """Makes all sums."""
    addresses, narrow, owner, first, size = table
    _make[(owner.numel(),)](addresses, narrow, owner, first, size, addresses.shape[1], CHUNK=CHUNK)
