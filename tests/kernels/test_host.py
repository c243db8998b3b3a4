"""Rows of host memory: the kernel against indexing, and what it must not do."""

import gc

import pytest
import torch
from fused_case import DEVICE, needs_kernels

from headtail.kernels import pinned
from headtail.kernels.host import host_rows
from headtail.kernels.pinned import empty_pages, pin

KINDS = pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.int64], ids=str)
CPU = torch.device("cpu")


def numbers(rows: int, columns: int, kind: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randint(-100, 100, (rows, columns), generator=torch.Generator().manual_seed(0)).to(kind)


@needs_kernels
@KINDS
@pytest.mark.parametrize("index", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("wanted", [0, 1, 50, 700])
@pytest.mark.parametrize("d", [1, 7, 64])
def test_the_kernel_gathers_what_indexing_does(d: int, wanted: int, index: torch.dtype, kind: torch.dtype) -> None:
    table = pin(numbers(31, d, kind))
    nodes = torch.randint(31, (wanted,), generator=torch.Generator().manual_seed(wanted))
    found = host_rows(table, nodes.to(DEVICE, index), DEVICE)
    assert found.device.type == DEVICE.type
    assert found.dtype == kind
    assert torch.equal(found.cpu(), table[nodes])


@needs_kernels
def test_the_kernel_takes_an_index_with_gaps_in_memory() -> None:
    pairs = torch.tensor([[0, 4], [2, 2], [4, 1]], device=DEVICE)
    assert torch.equal(host_rows(pin(numbers(5, 3)), pairs[:, 1], DEVICE).cpu(), numbers(5, 3)[[4, 2, 1]])


@KINDS
def test_without_the_kernel_the_host_picks_rows(
    kind: torch.dtype, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headtail.kernels.host.has_triton", lambda: False)
    monkeypatch.setattr("headtail.kernels.host.interpreted", lambda: False)
    table, nodes = numbers(31, 7, kind), torch.tensor([30, 0, 0, 4])
    found = host_rows(table, nodes.to(device), device)
    assert found.device.type == device.type
    assert torch.equal(found.cpu(), table[nodes])
    assert found.data_ptr() != table.data_ptr()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (5000, 3)], ids=str)
@KINDS
def test_pages_are_an_ordinary_tensor(shape: tuple[int, int], kind: torch.dtype) -> None:
    found = empty_pages(*shape, kind)
    assert (tuple(found.shape), found.dtype, found.device) == (shape, kind, CPU)
    wanted = numbers(*shape, kind)
    found.copy_(wanted)
    assert found.is_contiguous()
    gc.collect()  # the pages live as long as the tensor
    assert torch.equal(found, wanted)


def test_pinning_copies_nothing() -> None:
    table = numbers(100, 3)
    address = table.data_ptr()
    assert pin(table) is table
    assert table.data_ptr() == address
    assert table.is_pinned() == torch.cuda.is_available()


class Runtime:
    """Stands in for CUDA's own functions; answers with a fixed error."""

    def __init__(self, error: int) -> None:
        self.error, self.calls = error, []

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:  # noqa: N802
        self.calls.append(("register", address, size, flags))
        return self.error

    def cudaHostUnregister(self, address: int) -> None:  # noqa: N802
        self.calls.append(("unregister", address))


@pytest.mark.parametrize("error", [0, 712])
def test_pages_are_registered_for_as_long_as_the_tensor_lives(error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, forgotten = Runtime(error), []
    monkeypatch.setattr(pinned, "_runtime", lambda: runtime)
    monkeypatch.setattr(pinned, "_forget_error", lambda: forgotten.append(error))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: runtime.calls.append(("wait",)))
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _tensor: False)
    table = numbers(100, 3)
    address, registered = table.data_ptr(), ("register", table.data_ptr(), 1200, 0)
    assert pin(table) is table
    assert runtime.calls == [registered]
    assert forgotten == ([error] if error else [])
    del table
    gc.collect()
    assert runtime.calls == [registered, *([] if error else [("wait",), ("unregister", address)])]


@pytest.mark.gpu
def test_memory_is_pinned_for_as_long_as_it_lives() -> None:
    owner = empty_pages(1000, 100, torch.float32)
    held = pin(owner.view(100, 1000))
    assert held.is_pinned()
    assert owner.is_pinned()
    assert pin(owner) is owner  # pinned already
    del held
    gc.collect()
    assert not owner.is_pinned()


@pytest.mark.gpu
def test_nobody_waits_for_rows() -> None:
    table, index = pin(numbers(1000, 64)), torch.arange(0, 1000, 7, device="cuda")
    host_rows(table, index, index.device)  # compiles
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = host_rows(table, index, index.device)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(found.cpu(), table[::7])


@pytest.mark.gpu
def test_memory_that_cannot_be_pinned_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pin(numbers(1000, 64))
    overlapping = table[1:]
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _tensor: False)  # so that it is pinned twice, and refused
    assert pin(overlapping) is overlapping
    assert int(torch.ones(3, device="cuda").sum()) == 3
