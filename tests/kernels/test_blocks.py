"""Blocks take what a device has, and shrink where that was too much."""

import gc
import weakref
from collections.abc import Callable

import pytest
import torch

from headtail.errors import ConfigError
from headtail.kernels import blocks
from headtail.kernels.blocks import block_size, fitting, in_blocks, shrinking


def cramped(most: int, seen: list[int]) -> Callable[[int], str]:
    """Returns work that has memory for so many items."""

    def work(size: int) -> str:
        seen.append(size)
        if size > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has …")
        return f"did {size}"

    return work


@pytest.mark.parametrize(
    ("size", "most", "tried"),
    [(8, 8, [8]), (8, 7, [8, 4]), (100, 5, [100, 50, 25, 12, 6, 3]), (9, 1, [9, 4, 2, 1]), (1, 1, [1])],
)
def test_work_is_halved_until_it_fits(size: int, most: int, tried: list[int]) -> None:
    seen: list[int] = []
    assert shrinking(cramped(most, seen), size, "work") == (f"did {tried[-1]}", tried[-1])
    assert seen == tried


@pytest.mark.parametrize("size", [1, 6])
def test_what_cannot_be_halved_is_an_error_for_the_user(size: int) -> None:
    with pytest.raises(ConfigError) as caught:
        shrinking(cramped(0, []), size, "counting sheep")
    assert str(caught.value) == (
        "the GPU has too little memory for counting sheep (CUDA out of memory); end what else uses it, set a smaller "
        "`hidden`, or use --device cpu."
    )


def test_other_errors_pass() -> None:
    def broken(_size: int) -> None:
        raise RuntimeError("another matter")

    with pytest.raises(RuntimeError, match="another matter"):
        shrinking(broken, 8, "work")
    with pytest.raises(RuntimeError, match="another matter"), fitting("work"):
        broken(1)


def test_what_failed_is_freed_before_the_next_attempt() -> None:
    class Tensorlike:
        pass

    held: list[weakref.ref[Tensorlike]] = []

    def work(size: int) -> bool:
        large = Tensorlike()
        held.append(weakref.ref(large))
        if size > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return all(reference() is None for reference in held[:-1])

    gc.disable()  # memory that only a collection frees would not be free in time
    try:
        assert shrinking(work, 8, "work") == (True, 2)
    finally:
        gc.enable()


@pytest.mark.parametrize("total", [0, 1, 10, 23])
@pytest.mark.parametrize("most", [1, 3, 100])
def test_every_row_is_done_once(total: int, most: int) -> None:
    rows: list[int] = []

    def work(first: int, size: int) -> int:
        if size > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        rows.extend(range(first, min(first + size, total)))
        return first + size

    in_blocks(work, total, 16, "work")
    assert rows == list(range(total))


@pytest.mark.parametrize(
    ("free", "bytes_each", "wanted"),
    [
        (2**40, 2112, 2**19),  # the bound: what else the GPU does makes no difference
        (2**35, 2112, 2**19),
        (2**30, 2**10, 2**18),  # a quarter of what is free
        (2**30, 2**10 + 1, 2**17),
        (100, 2**10, 1),
    ],
)
def test_blocks_of_a_gpu_are_powers_of_two_that_fit(
    free: int, bytes_each: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "free_bytes", lambda _device: free)
    assert block_size(torch.device("cuda"), bytes_each, on_cpu=7) == wanted
    assert block_size(torch.device("cpu"), bytes_each, on_cpu=7) == 7


@pytest.mark.gpu
def test_memory_that_was_freed_counts_as_free() -> None:
    device = torch.device("cuda")
    before = blocks.free_bytes(device)
    held = torch.empty(2**28, dtype=torch.uint8, device=device)
    assert blocks.free_bytes(device) <= before - 2**28
    del held
    assert blocks.free_bytes(device) > before - 2**27


@pytest.mark.gpu
def test_a_full_gpu_is_survived() -> None:
    device = torch.device("cuda")
    most = 2 * torch.cuda.mem_get_info(device)[1]

    def work(size: int) -> int:
        return int(torch.ones(size, dtype=torch.uint8, device=device)[-1])

    found, size = shrinking(work, most, "work")
    assert found == 1
    assert size < most
