"""Attention over sparse rows: the reference against a plain softmax, the kernels against the reference."""

import pytest
import torch
from fused_case import DEVICE, assert_close, needs_kernels
from torch import Tensor

from headtail.graph.csr import CSR, row_pointers
from headtail.nn.sparse import attend

SOURCES = 23
# Entries of each row: empty rows, single entries, rows longer than any tile, no rows, no entries.
RAGGED = [[0, 1, 70, 0, 3, 16, 17, 2, 0], [5], [0], [0, 0, 0], [], [1] * 20, [300, 0, 1], [2] * 20]
lengths_of_rows = pytest.mark.parametrize("lengths", RAGGED, ids=lambda lengths: f"{len(lengths)} rows, {sum(lengths)}")


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rows_of(lengths: list[int]) -> CSR:
    """Rows with duplicates, and without an entry for some of the sources."""
    row = torch.repeat_interleave(torch.tensor(lengths, dtype=torch.int64))
    col = torch.randint(SOURCES - 3, (row.numel(),), generator=torch.Generator().manual_seed(1))
    return CSR(row_pointers(row, len(lengths)), col, SOURCES)


def inputs_of(rows: CSR, d: int) -> list[Tensor]:
    """Sources, direction and terms of targets, such that logits of both signs are within a few units."""
    return [draw(SOURCES, d), draw(d, seed=1) / d**0.5, draw(rows.num_rows, seed=2)]


def plainly(rows: CSR, x: Tensor, direction: Tensor, from_target: Tensor) -> Tensor:
    """Row by row, as the definition says."""
    found = [x[:0]]
    for row, (first, last) in enumerate(zip(rows.row_ptr[:-1].tolist(), rows.row_ptr[1:].tolist(), strict=True)):
        seen = x[rows.col[first:last]]
        logits = torch.nn.functional.leaky_relu(seen @ direction + from_target[row], 0.2)
        found.append(torch.softmax(logits, dim=0)[None] @ seen)
    return torch.cat(found)


def padded(rows: CSR) -> CSR:
    """The same rows with empty ones after them, and entries that no row owns and that point to nowhere."""

    def longer(rows: CSR, more: int) -> CSR:
        row_ptr = torch.cat([rows.row_ptr, rows.row_ptr[-1:].expand(more)])
        return CSR(row_ptr, torch.cat([rows.col, rows.col.new_full((9,), 10**12)]), rows.num_cols)

    whole = longer(rows, 4)
    whole.__dict__["transposed"] = longer(rows.transposed, 0)
    return whole


def moved(rows: CSR, index: torch.dtype) -> CSR:
    """Rows on the device under test, with the transposed rows they were given."""
    there = CSR(rows.row_ptr.to(DEVICE, index), rows.col.to(DEVICE, torch.int64), rows.num_cols)
    if "transposed" in rows.__dict__:
        there.__dict__["transposed"] = moved(rows.transposed, index)
    return there


def facts(found: Tensor, inputs: list[Tensor], grad: Tensor) -> list[Tensor]:
    """The sums, and the gradients of all inputs."""
    wanted = [x for x in inputs if x.requires_grad]
    return [found.detach(), *torch.autograd.grad(found, wanted, grad.to(found), materialize_grads=True)]


def leaves(inputs: list[Tensor], x_has_gradient: bool = True) -> list[Tensor]:
    copies = [x.detach().clone().requires_grad_() for x in inputs]
    return [copies[0].requires_grad_(x_has_gradient), *copies[1:]]


@lengths_of_rows
@pytest.mark.parametrize("d", [1, 5])
def test_the_reference_is_a_softmax_in_every_row(lengths: list[int], d: int) -> None:
    rows, grad = rows_of(lengths), draw(len(lengths), d, seed=3)
    ours, theirs = leaves(inputs_of(rows, d)), leaves(inputs_of(rows, d))
    found = facts(attend(rows, *ours), ours, grad)
    for have, want in zip(found, facts(plainly(rows, *theirs), theirs, grad), strict=True):
        torch.testing.assert_close(have, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("x_has_gradient", [False, True])
@pytest.mark.parametrize("wide", [False, True], ids=["as they are", "padded"])
def test_gradients_of_the_reference_by_finite_differences(wide: bool, x_has_gradient: bool) -> None:
    rows = rows_of([0, 1, 7, 3, 0])
    rows = padded(rows) if wide else rows
    assert torch.autograd.gradcheck(lambda *each: attend(rows, *each), leaves(inputs_of(rows, 3), x_has_gradient))


def test_rows_whose_sources_have_no_gradient_are_not_transposed() -> None:
    rows = rows_of([3, 0, 2])
    inputs = leaves(inputs_of(rows, 4), x_has_gradient=False)
    attend(rows, *inputs).sum().backward()
    assert "transposed" not in rows.__dict__
    assert inputs[1].grad is not None


def test_large_logits_do_no_harm() -> None:
    rows = rows_of([4, 9, 1])
    x, direction, from_target = inputs_of(rows, 3)
    found = attend(rows, x, 1e5 * direction, 1e5 * from_target)
    torch.testing.assert_close(found, plainly(rows, x, 1e5 * direction, 1e5 * from_target))


@pytest.mark.parametrize("d", [1, 4])
def test_half_precision_keeps_its_type_and_full_statistics(d: int, device: torch.device) -> None:
    rows = rows_of([0, 40, 2])
    exact = leaves([x.bfloat16().double() for x in inputs_of(rows, d)])
    half = leaves([x.bfloat16().to(device) for x in exact])
    with torch.autocast(device.type, torch.bfloat16):
        found = attend(rows.to(device), *half)
    assert found.dtype == torch.bfloat16
    grad = draw(rows.num_rows, d, seed=3).bfloat16()
    wanted = facts(plainly(rows, *exact), exact, grad)
    for have, want in zip(facts(found, half, grad), wanted, strict=True):
        assert have.dtype == torch.bfloat16
        assert_close(have, want, 1e-2)


@needs_kernels
@pytest.mark.parametrize("wide", [False, True], ids=["as they are", "padded"])
@lengths_of_rows
@pytest.mark.parametrize("d", [1, 7, 64, 256])
def test_kernels_equal_the_reference(lengths: list[int], d: int, wide: bool) -> None:
    rows = padded(rows_of(lengths)) if wide else rows_of(lengths)
    inputs, grad = inputs_of(rows, d), draw(rows.num_rows, d, seed=3)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 1e-2)):
        exact = leaves([x.to(dtype).double() for x in inputs])
        there = leaves([x.to(DEVICE, dtype) for x in exact])
        wanted = facts(attend(rows, *exact), exact, grad.to(dtype))
        found = facts(attend(moved(rows, torch.int64), *there), there, grad.to(dtype))
        for have, want in zip(found, wanted, strict=True):
            assert have.dtype == dtype
            assert_close(have, want, tolerance)


@needs_kernels
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_kernels_without_a_gradient_of_the_sources(index: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    # So few programs that each sums over several rows, and the last over fewer.
    monkeypatch.setattr("headtail.kernels.attend_triton.MOST_SUMS", 4)
    rows = rows_of([0, 1, 2, 0, 20, 3, 0, 2, 1])
    inputs, grad = inputs_of(rows, 3), draw(rows.num_rows, 3, seed=3)
    exact = leaves(inputs, x_has_gradient=False)
    there = leaves([x.to(DEVICE, torch.float32) for x in inputs], x_has_gradient=False)
    wanted, found = (
        facts(attend(each, *leaf), leaf, grad) for each, leaf in ((rows, exact), (moved(rows, index), there))
    )
    for have, want in zip(found, wanted, strict=True):
        assert_close(have, want, 1e-5)


@needs_kernels
def test_the_same_numbers_come_out_every_time() -> None:
    rows, d = moved(rows_of([70, 0, 300, 5]), torch.int64), 32
    runs = []
    for _ in range(3):
        inputs = leaves([x.to(DEVICE, torch.float32) for x in inputs_of(rows, d)])
        runs.append(facts(attend(rows, *inputs), inputs, draw(rows.num_rows, d, seed=3)))
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))
