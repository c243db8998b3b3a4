"""Rows in files answer as rows in memory do, whatever the blocks."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headtail.errors import HeadtailError
from headtail.graph import mapped, pre_encoding, scratch, tables
from headtail.graph.csr import CSR
from headtail.graph.mapped import MappedCSR
from headtail.graph.message import MessageGraph, add_self_loops, normalise
from headtail.graph.pre_encoding import encode_columns, pre_encode, pre_encode_on_disk
from headtail.graph.tables import HostTable
from random_graphs import random_view


def mapped_rows(rows: CSR) -> MappedCSR:
    return MappedCSR(rows.row_ptr, rows.col, rows.num_cols)


@given(seed=st.integers(0, 1000), pairs=st.integers(1, 40), entries=st.integers(0, 60))
def test_pairs_are_found_as_in_memory(seed: int, pairs: int, entries: int) -> None:
    rows = random_view(20, 40, seed=seed).out_rows
    ours = mapped_rows(rows)
    generator = torch.Generator().manual_seed(seed)
    heads, tails = torch.randint(20, (2, 60), generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapped, "BLOCK_PAIRS", pairs)
        patch.setattr(mapped, "BLOCK_ENTRIES", entries)
        entry, found = ours.find(heads, tails)
    expected, wanted = rows.find(heads, tails)
    assert torch.equal(found, wanted)
    assert torch.equal(entry[found], expected[wanted])


def test_rows_without_entries_hold_nothing() -> None:
    empty = MappedCSR(torch.zeros(4, dtype=torch.int64), torch.empty(0, dtype=torch.int64), 3)
    nodes = torch.arange(3)
    assert not empty.contains(nodes, nodes).any()
    assert not mapped_rows(CSR.from_links(torch.tensor([[0], [1]]), 3)).contains(nodes[2:], nodes[:1]).any()


@given(
    seed=st.integers(0, 1000),
    layers=st.integers(1, 3),
    columns=st.integers(1, 9),
    at_once=st.integers(1, 9),
    entries=st.integers(1, 90),
    rows=st.integers(1, 30),
    how=st.sampled_from(["row", "column", "symmetric"]),
)
def test_pre_encoding_in_blocks_is_that_in_memory(
    seed: int, layers: int, columns: int, at_once: int, entries: int, rows: int, how: str
) -> None:
    view = random_view(25, 60, seed=seed)
    pattern = add_self_loops(view)
    x = torch.randn(25, columns, generator=torch.Generator().manual_seed(seed))
    expected = pre_encode(normalise(pattern, how), x, layers)
    assert isinstance(expected, Tensor)
    ours = normalise(mapped_rows(pattern), how)
    with pytest.MonkeyPatch.context() as patch:
        for module in (mapped, pre_encoding):
            patch.setattr(module, "BLOCK_ENTRIES", entries)
        patch.setattr(pre_encoding, "BLOCK_ROWS", rows)
        out = torch.full_like(x, torch.nan)
        middle = columns // 2  # two ranks, a range of columns each
        encode_columns(ours, x[:, :middle], layers, out[:, :middle], at_once)
        assert out[:, middle:].isnan().all()
        encode_columns(ours, x[:, middle:], layers, out[:, middle:], at_once)
    assert torch.allclose(out, expected, rtol=1e-6, atol=1e-7)


def test_the_encoded_file_is_found_again(tmp_path: Path) -> None:
    graph = MessageGraph.build(random_view(30, 80), torch.randn(30, 5), "row", 2)
    expected, kept = graph.pre_encoded, tmp_path / "encoded.npy"
    first = pre_encode_on_disk(graph.adjacency, graph.features, 2, kept)
    assert torch.equal(first, expected)  # type: ignore[arg-type]
    before = kept.stat().st_mtime_ns
    assert torch.equal(pre_encode_on_disk(graph.adjacency, graph.features, 2, kept), expected)  # type: ignore[arg-type]
    assert kept.stat().st_mtime_ns == before
    kept.write_bytes(kept.read_bytes()[:-4])  # a torn one is made again
    assert torch.equal(pre_encode_on_disk(graph.adjacency, graph.features, 2, kept), expected)  # type: ignore[arg-type]
    assert torch.equal(pre_encode_on_disk(graph.adjacency, graph.features, 2), expected)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["encoded.npy"]


def test_tables_without_room_lie_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "available_bytes", lambda: 4000)
    like = torch.ones(3, 2)
    told: list[str] = []
    monkeypatch.setattr(tables, "tell_on_disk", lambda what, size: told.append(f"{what} {size}"))
    assert tables.new_table(10, 25, like, "trying").shape == (10, 25)
    assert told == []
    table = tables.new_table(10, 26, like, "trying")
    assert isinstance(table, HostTable)
    assert table.on_disk
    assert told == ["trying 1040"]
    table.values[:] = torch.arange(260.0).view(10, 26)
    monkeypatch.setattr(tables, "ROWS_EXPECTED", 3)
    rows = torch.tensor([9, 0, 4, 4, 7, 1, 2])
    assert torch.equal(table.rows(rows), table.values[rows])
    on_disk = HostTable.empty(4, 3, torch.float32, torch.device("cpu"), on_disk=True)
    on_disk.write(1, torch.ones(2, 3))
    assert on_disk.rows(torch.tensor([2])).tolist() == [[1.0, 1.0, 1.0]]
    assert tables.beside(on_disk, "trying").on_disk  # type: ignore[union-attr]


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", refuse)
    with pytest.raises(HeadtailError, match=r"does not fit on the disk .*: No space left on device; free some space"):
        scratch.scratch_table(10, 10, torch.float32)
