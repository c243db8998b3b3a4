"""Rows of a table in host memory, brought to the device that computes with them."""

import torch
from torch import Tensor

from headtail.kernels.launch import engine, has_triton, interpreted


def host_rows(table: Tensor, index: Tensor, device: torch.device) -> Tensor:
    """Returns table[index] as [n, d] on a device, from a table [N, d] in host memory.

    A kernel reads pinned memory over the bus, in the order of the device's other work, so nobody waits. Else the host
    picks the rows: it has to wait for an index that is on the device, but not for the copy.

    Args:
        table: contiguous.
        index: integers [n], on either side.
        device: where the rows are wanted.
    """
    if interpreted() or (engine(device) and has_triton() and table.is_pinned()):
        from headtail.kernels import gather_triton

        return gather_triton.take_rows(table, index.to(device), device)
    # The allocator keeps this memory until the copy is done.
    staged = torch.empty(index.numel(), table.shape[1], dtype=table.dtype, pin_memory=device.type == "cuda")
    torch.index_select(table, 0, index.to(table.device), out=staged)
    return staged.to(device, non_blocking=True)
