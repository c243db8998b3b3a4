"""The pages that rows of a mapped table lie on are named without a gap, and read before anybody needs them."""

import ctypes
import mmap
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headtail.graph import pages
from headtail.graph.pages import expect_rows
from headtail.graph.scratch import read_only

PAGE = mmap.PAGESIZE


@given(
    rows=st.lists(st.integers(0, 299), min_size=1, max_size=40),
    width=st.sampled_from([1, 7, 128, 1024, 3000]),
    skipped=st.integers(0, 5),
)
def test_ranges_are_the_pages_of_the_rows(rows: list[int], width: int, skipped: int) -> None:
    table = torch.empty(skipped + 300, width)[skipped:]
    wanted = set()
    for row in rows:
        start = table[row].data_ptr()
        wanted |= set(range(start // PAGE, (start + 4 * width - 1) // PAGE + 1))
    found: list[int] = []
    for address, size in pages._page_ranges(table, torch.tensor(rows)).tolist():
        assert address % PAGE == size % PAGE == 0
        assert not found or address // PAGE > found[-1] + 1 + pages._GAP  # else it would have been one range
        found += range(address // PAGE, (address + size) // PAGE)
    assert set(found) >= wanted
    assert all(wanted & set(range(page - pages._GAP, page + 1)) for page in found)
    assert found[0] == min(wanted)
    assert found[-1] == max(wanted)


def resident(table: torch.Tensor) -> np.ndarray:
    first = table.data_ptr() // PAGE * PAGE
    size = table.data_ptr() + table.nbytes - first
    told = np.zeros(-(-size // PAGE), dtype=np.uint8)
    mincore = ctypes.CDLL(None, use_errno=True).mincore
    assert mincore(ctypes.c_void_p(first), ctypes.c_size_t(size), ctypes.c_void_p(told.ctypes.data)) == 0
    return (told & 1).astype(bool)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise") or not hasattr(mmap, "MADV_WILLNEED"), reason="needs Linux")
@pytest.mark.parametrize("refused", ["nothing", "the call", "the process"])
def test_what_is_expected_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    def refuse(_process: int) -> int:
        raise PermissionError("not in this sandbox")

    if refused == "the call":
        monkeypatch.setattr(pages, "_advise_together", lambda *_: -1)
    if refused == "the process":
        monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    path, columns = tmp_path / "x.npy", PAGE // 4
    np.save(path, np.arange(13000 * columns, dtype=np.float32).reshape(-1, columns))
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    table = read_only(np.load(path, mmap_mode="r"))
    rows = torch.randperm(1200)[:1100] * (pages._GAP + 2)  # more ranges than one call takes
    expect_rows(table, rows)
    deadline = time.monotonic() + 20
    while not resident(table)[rows.numpy()].all():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert torch.equal(table[rows][:, 0], rows * float(columns))


def test_no_rows_are_no_pages() -> None:
    expect_rows(torch.empty(3, 2), torch.empty(0, dtype=torch.int64))
