"""Tables in host memory against tensors that hold the same."""

import logging
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from headtail.errors import ConfigError
from headtail.graph import tables
from headtail.graph.csr import CSR
from headtail.graph.evidence import PairEvidence
from headtail.graph.message import MessageGraph
from headtail.graph.pre_encoding import pre_encode
from headtail.graph.tables import HostTable, by_columns, fill, mean_row, new_table, rows_of, sources_of, write_rows
from headtail.kernels import room
from random_graphs import dense, dense_messages, message_graph, random_view

FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


def numbers(rows: int = 23, columns: int = 5) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))


def same(found: Tensor, wanted: Tensor, device: torch.device) -> bool:
    return found.device.type == device.type and torch.equal(found.cpu(), wanted)


def test_it_reads_like_a_tensor(device: torch.device) -> None:
    values = numbers()
    table, nodes = HostTable(values, device), torch.tensor([22, 0, 7, 7])
    assert (table.shape, table.dtype, table.device) == (values.shape, torch.float32, device)
    assert same(table.rows(nodes.to(device)), values[nodes], device)
    assert same(table.block(3, 9), values[3:9], device)
    assert same(table.columns(1, 3), values[:, 1:3], device)
    for part in (slice(None), slice(3, 9), slice(20, 99), slice(30, 40)):
        assert same(rows_of(table, part), values[part], device)
        assert same(rows_of(values.to(device), part), values[part], device)
    assert same(rows_of(table, nodes.to(device)), values[nodes], device)
    assert same(rows_of(values.to(device), nodes.to(device)), values[nodes], device)
    torch.testing.assert_close(mean_row(table), values.mean(dim=0).to(device))


def test_it_is_written_like_a_tensor(device: torch.device) -> None:
    wanted = numbers()
    for table in (HostTable.empty(23, 5, torch.float32, device), torch.empty(23, 5, device=device)):
        for first in range(0, 23, 10):
            write_rows(table, first, wanted[first : first + 10].to(device))
        assert same(rows_of(table, slice(None)), wanted, device)
    table = HostTable(torch.zeros(23, 5), device)
    table.write_columns(2, wanted[:, 2:4].to(device))
    assert same(
        rows_of(table, slice(None)), torch.cat([wanted * 0, wanted, wanted * 0], dim=1)[:, [0, 1, 7, 8, 4]], device
    )


def test_values_are_not_copied() -> None:
    values = numbers()
    assert HostTable(values, torch.device("cpu")).values is values
    assert HostTable(values.T, torch.device("cpu")).values.is_contiguous()


@pytest.mark.parametrize("size", [1, 4, 23, 100])
def test_filling_may_read_what_it_replaces(size: int, device: torch.device) -> None:
    values = numbers()
    for table in (HostTable(values.clone(), device), values.clone().to(device)):
        fill(table, lambda rows, table=table: 2 * rows_of(table, rows), size, "doubling")
        assert same(rows_of(table, slice(None)), 2 * values, device)


def test_sources_are_the_rows_that_entries_name(device: torch.device) -> None:
    graph = message_graph(random_view(25, 60), device=device)
    rows = graph.adjacency.block(20, 25)
    sources, adjacency = sources_of(HostTable(graph.features.cpu(), device), rows)
    assert sources.shape[0] == len(set(rows.col.tolist())) < 25
    torch.testing.assert_close(adjacency.matmul(sources), rows.matmul(graph.features))
    names = torch.unique(rows.col).cpu()
    assert np.array_equal(dense(adjacency), dense(rows)[:, names])
    assert sources_of(graph.features, rows) == (graph.features, rows)


@pytest.mark.parametrize("normalisation", ["row", "column", "symmetric"])
@pytest.mark.parametrize("width", [1, 2, 3, 5, 64])
def test_pre_encoding_by_columns_is_that_of_all(
    width: int, normalisation: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, columns = [], HostTable.columns
    monkeypatch.setattr(tables, "_columns_at_once", lambda _table: width)
    view = random_view(25, 60)
    graph = message_graph(view, 5, normalisation, layers=3, device=device)
    host = MessageGraph.build(view, HostTable(graph.features.cpu(), device), normalisation, 3)
    assert host.device.type == graph.device.type
    monkeypatch.setattr(HostTable, "columns", lambda *args: seen.append(args[1:]) or columns(*args))
    assert isinstance(host.pre_encoded, HostTable)
    assert seen == [(first, min(first + width, 5)) for first in range(0, 5, width)]
    torch.testing.assert_close(host.pre_encoded.values, graph.pre_encoded.cpu(), rtol=1e-5, atol=1e-6)
    wanted = np.linalg.matrix_power(dense_messages(view, normalisation), 3) @ graph.features.cpu().numpy()
    np.testing.assert_allclose(host.pre_encoded.values.numpy(), wanted, atol=1e-5)


def cramped(most: int) -> Callable[[Tensor], Tensor]:
    """Returns work on columns that has memory for so many."""

    def work(x: Tensor) -> Tensor:
        if x.shape[1] > most:
            raise FULL
        return 2 * x

    return work


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("on_host", [False, True])
def test_work_that_does_not_fit_goes_to_the_host_in_fewer_columns(most: int, on_host: bool) -> None:
    values = numbers()
    found = by_columns(HostTable(values, torch.device("cpu")) if on_host else values, cramped(most), "doubling")
    assert isinstance(found, HostTable)
    assert torch.equal(found.values, 2 * values)
    with pytest.raises(ConfigError, match="too little memory for doubling"):
        by_columns(values, cramped(0), "doubling")


def test_work_that_fits_stays(caplog: pytest.LogCaptureFixture) -> None:
    found = by_columns(numbers(), cramped(5), "doubling")
    assert torch.equal(found, 2 * numbers())
    assert not caplog.records


def test_a_full_device_does_not_stop_pre_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, plain = message_graph(random_view(25, 60), 5), CSR.matmul
    wanted = graph.pre_encoded

    def matmul(rows: CSR, x: Tensor) -> Tensor:
        cramped(2)(x)
        return plain(rows, x)

    monkeypatch.setattr(CSR, "matmul", matmul)
    found = pre_encode(graph.adjacency, graph.features, 2)
    assert isinstance(found, HostTable)
    torch.testing.assert_close(found.values, wanted)


@pytest.mark.parametrize("reason", ["no room", "out of memory"])
def test_a_table_without_room_goes_to_the_host_and_says_so_once(
    reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_args: object, **_kwargs: object) -> Tensor:
        raise FULL

    like = torch.empty(1, 2, dtype=torch.bfloat16)
    room.tell_spilled.cache_clear()
    assert isinstance(new_table(2**15, 2**10, like, "counting"), Tensor)
    if reason == "no room":
        monkeypatch.setattr(tables, "has_room", lambda _device, needed: needed < 2**26)
    else:
        monkeypatch.setattr(torch, "empty", refuse)
    with caplog.at_level(logging.WARNING):
        found = [new_table(2**15, 2**10, like, "counting") for _ in range(2)]
    assert all(isinstance(table, HostTable) for table in found)
    assert (found[0].shape, found[0].dtype) == ((2**15, 2**10), torch.bfloat16)
    assert [record.message for record in caplog.records] == [
        "GPU memory does not do for counting: a table of 0.1 GiB goes to host memory, which is slower."
    ]


@pytest.mark.parametrize(("needed", "fits"), [(750, True), (751, False)])
def test_room_is_a_share_of_what_is_free(needed: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda _device: 1000)
    assert room.has_room(torch.device("cuda"), needed) == fits
    assert room.has_room(torch.device("cpu"), needed)


@pytest.mark.parametrize(
    ("free", "wanted"), [(2 * 12 * 23 * 3, 3), (2 * 12 * 23 * 3 - 1, 2), (1, 1), (10**9, 5)], ids=str
)
def test_columns_at_once_fill_half_of_what_is_free(free: int, wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "free_bytes", lambda _device: free)
    monkeypatch.setattr(tables, "pin", lambda values: values)
    assert tables._columns_at_once(HostTable(numbers(), torch.device("cuda"))) == wanted


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("kept", ["host", "spilled", "device"])
def test_evidence_from_the_host_is_that_from_the_device(
    directed: bool, kept: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, features = random_view(25, 60, directed), numbers(25, 7)
    heads, tails = torch.cartesian_prod(torch.arange(25), torch.arange(25)).T.to(device)
    kinds = ["degrees", "similarity"]
    wanted = PairEvidence(kinds, view, features.to(device))(heads, tails)
    if kept == "spilled":
        monkeypatch.setattr(tables, "has_room", lambda _device, _needed: False)
    found = PairEvidence(kinds, view, HostTable(features, device) if kept == "host" else features.to(device))
    torch.testing.assert_close(found(heads, tails), wanted)
    assert isinstance(found.parts[1].unit, HostTable) == (kept != "device")
    assert isinstance(found.parts[1].tails_of, HostTable) == (kept != "device")
