"""Fused grouping is a stable sort."""

import pytest
import torch
from fused_case import DEVICE, needs_kernels

from headtail.kernels.grouping import grouped, transposed


@needs_kernels
@pytest.mark.parametrize("n", [1, 600])
@pytest.mark.parametrize(("sizes", "bits"), [((1, 1), 9), ((5, 300), 9), ((511, 512), 9), ((600, 90), 4)], ids=str)
def test_lists_of_keys(n: int, sizes: tuple[int, int], bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one, two and three passes, with many equal keys, with keys of all bits, and with padding among them."""
    monkeypatch.setattr("headtail.kernels.grouping_triton.MOST_BITS", bits)
    generator = torch.Generator().manual_seed(n)
    keys = torch.stack([torch.randint(size + 1, (n,), generator=generator, dtype=torch.int32) for size in sizes])
    row, weight = torch.randint(99, (n,), generator=generator), torch.rand(n, generator=generator)
    there = [t.to(DEVICE) for t in (keys, row, weight)]
    found = [*grouped(there[0], sizes), transposed(there[0][0], sizes[0], *there[1:])]
    monkeypatch.setattr("headtail.kernels.launch.interpreted", lambda: False)
    wanted = [*grouped(keys, sizes), transposed(keys[0], sizes[0], row, weight)]
    for ours, theirs in zip(found, wanted, strict=True):
        assert all(torch.equal(a.cpu(), b) for a, b in zip(ours, theirs, strict=True))
