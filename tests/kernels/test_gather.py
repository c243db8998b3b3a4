"""Fused gathers against their references in double precision, over ragged rows."""

import pytest
import torch
from fused_case import DEVICE, assert_close, needs_kernels
from torch import Tensor

from headtail.graph.csr import CSR, row_pointers
from headtail.kernels import gather
from headtail.sampling.places import PairPlaces

# Entries of each row: empty rows, single entries, rows longer than any tile, no rows, no entries.
RAGGED = [
    [0, 1, 70, 0, 3, 16, 17, 32, 33, 2, 0],
    [5],
    [0],
    [0, 0, 0],
    [],
    [1] * 40,
    [300, 0, 1],
    [128, 129, 0, 600],
    [2] * 66 + [200, 1, 130],
]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rows_of(lengths: list[int], sources: int) -> CSR:
    degrees = torch.tensor(lengths, dtype=torch.int64)
    row = torch.repeat_interleave(degrees)
    col = torch.randint(sources, (row.numel(),), generator=torch.Generator().manual_seed(1))
    return CSR(row_pointers(row, len(lengths)), col, sources, draw(row.numel(), seed=2))


@needs_kernels
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lengths", RAGGED, ids=str)
@pytest.mark.parametrize("d", [1, 7, 100])
def test_segment_sum(lengths: list[int], d: int, weighted: bool, index: torch.dtype) -> None:
    rows, x = rows_of(lengths, 23), draw(23, d)
    weight = rows.weight if weighted else None
    wanted = gather.segment_sum(rows.row_ptr, rows.col, weight, x)
    single = None if weight is None else weight.float().to(DEVICE)
    pointers, col = (t.to(DEVICE, index) for t in (rows.row_ptr, rows.col))
    assert_close(gather.segment_sum(pointers, col, single, x.float().to(DEVICE)), wanted, 1e-5)
    half = x.bfloat16()
    wanted = gather.segment_sum(rows.row_ptr, rows.col, weight, half.double())
    found = gather.segment_sum(pointers, col, single, half.to(DEVICE))
    assert found.dtype == torch.bfloat16
    assert_close(found, wanted, 1e-2)


@needs_kernels
@pytest.mark.parametrize("lengths", RAGGED, ids=str)
def test_segment_sum_beside_own_rows(lengths: list[int]) -> None:
    rows, x = rows_of(lengths, 23), draw(23, 7)
    own = torch.arange(len(lengths)) % 23
    pointers, col, weight, there = (t.to(DEVICE) for t in (rows.row_ptr, rows.col, rows.weight.float(), own))
    wanted = gather.segment_sum_beside(rows.row_ptr, rows.col, rows.weight, x, own)
    longest = max(lengths, default=0)
    assert_close(gather.segment_sum_beside(pointers, col, weight, x.float().to(DEVICE), there, longest), wanted, 1e-5)


@needs_kernels
def test_long_rows_are_found_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    from headtail.kernels import gather_triton

    monkeypatch.setattr(gather_triton, "LOOKING", 3)
    rows, x = rows_of([65, 2, 70, *[1] * 50, 300, 0, 90, *[3] * 17, 64], 23), draw(23, 100)
    pointers, col, weight = (t.to(DEVICE) for t in (rows.row_ptr, rows.col, rows.weight.float()))
    wanted = gather.segment_sum(rows.row_ptr, rows.col, rows.weight, x)
    assert_close(gather.segment_sum(pointers, col, weight, x.float().to(DEVICE)), wanted, 1e-5)


@needs_kernels
@pytest.mark.parametrize("d", [1, 7, 64])
@pytest.mark.parametrize("pairs", [0, 1, 50, 400])
def test_pair_products_and_what_their_gradients_are_made_of(pairs: int, d: int) -> None:
    generator = torch.Generator().manual_seed(pairs)
    # The two ends of a pair lie beside each other, as columns: no kernel may take them for rows.
    ends = torch.stack([torch.randint(n, (pairs,), generator=generator) for n in (5, 31)], dim=1).T
    u, v, grad = draw(5, d), draw(31, d, seed=1), draw(pairs, d, seed=2)
    single = [x.float().to(DEVICE) for x in (u, v, grad)]
    there = PairPlaces(ends.to(DEVICE))
    found = gather.pair_product(single[0], single[1], there.left, there.right)
    assert_close(found, u[ends[0]] * v[ends[1]], 1e-6)
    by_left, by_right = there.by_left(5), there.by_right(31)
    found = gather.segment_sum_of_products(by_left.row_ptr, by_left.col, there.right, single[2], single[1])
    assert_close(found, torch.zeros(5, d, dtype=torch.float64).index_add(0, ends[0], grad * v[ends[1]]), 1e-5)
    found = gather.segment_sum_of_products(by_right.row_ptr, by_right.col, there.left, single[2], single[0])
    assert_close(found, torch.zeros(31, d, dtype=torch.float64).index_add(0, ends[1], grad * u[ends[0]]), 1e-5)
