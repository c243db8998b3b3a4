"""Pre-encoding by several ranks is that of one process, bit for bit, wherever each of them keeps it."""

import os
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headtail.errors import HeadtailError
from headtail.graph import exchange, pre_encoding, pre_encoding_across, tables
from headtail.graph.message import MessageGraph, add_self_loops, normalise
from headtail.graph.pre_encoding import keeping, pre_encode, pre_encode_on_disk
from headtail.graph.pre_encoding_across import pre_encode_across
from headtail.graph.tables import HostTable, Table
from headtail.ranks import Ranks
from random_graphs import message_graph, random_view
from threads_as_ranks import current, on_ranks

NODES = 30


def graph_of(columns: int, how: str = "row", layers: int = 2) -> MessageGraph:
    return message_graph(random_view(NODES, 80), columns, how, layers)


def values(table: Table) -> Tensor:
    return table if isinstance(table, Tensor) else table.values


@given(
    size=st.integers(2, 6),
    columns=st.integers(1, 9),
    layers=st.integers(1, 3),
    how=st.sampled_from(["row", "column", "symmetric"]),
    block=st.sampled_from([1, 100, 700, 2**20]),
    places=st.lists(st.sampled_from(["memory", "disk", "host", "host on disk"]), min_size=6, max_size=6),
)
def test_every_rank_gets_all_columns(
    size: int, columns: int, layers: int, how: str, block: int, places: list[str]
) -> None:
    # More ranks than columns, columns that do not divide, and ranks with less memory than others.
    adjacency = normalise(add_self_loops(random_view(NODES, 80)), how)
    x = torch.randn(NODES, columns, generator=torch.Generator().manual_seed(size))
    wanted = pre_encode(adjacency, x, layers)
    assert isinstance(wanted, Tensor)

    def work(ranks: Ranks) -> Tensor:
        place = places[ranks.rank]
        here = HostTable(x, x.device, "disk" in place) if "host" in place else x
        found = pre_encode_across(ranks, adjacency, here, layers, "disk" in place)
        assert isinstance(found, HostTable) == ("host" in place)
        return values(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "BLOCK_BYTES", block)
        patch.setattr(pre_encoding, "BLOCK_ENTRIES", 40)
        patch.setattr(tables, "_columns_at_once", lambda _table: 2)
        assert all(torch.equal(found, wanted) for found in on_ranks(size, work))


def test_message_graphs_do_it_together() -> None:
    graph = graph_of(5)
    found = on_ranks(3, lambda ranks: MessageGraph(graph.adjacency, "row", graph.features, 2, ranks=ranks).pre_encoded)
    assert all(torch.equal(values(each), values(graph.pre_encoded)) for each in found)


def test_no_rank_computes_columns_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, seen = graph_of(7), []
    plain = pre_encoding_across.pre_encode

    def spy(*given: object) -> Table:
        seen.append(given[1].shape[1])  # type: ignore[attr-defined]
        return plain(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(pre_encoding_across, "pre_encode", spy)
    on_ranks(3, lambda ranks: pre_encode_across(ranks, graph.adjacency, graph.features, 2))
    assert sorted(seen) == [2, 2, 3]


def test_columns_in_memory_are_bounded_by_all_ranks_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    # Memory for six columns, twice, within the share: three ranks hold two each.
    monkeypatch.setattr(
        pre_encoding, "available_bytes", lambda: int(6 * 2 * NODES * 4 / pre_encoding.COLUMNS_SHARE) + 9
    )
    graph, seen, plain = graph_of(12), [], pre_encoding._encode_block
    monkeypatch.setattr(pre_encoding, "_encode_block", lambda *a: seen.append(a[1].shape[1]) or plain(*a))
    found = on_ranks(3, lambda ranks: pre_encode_across(ranks, graph.adjacency, graph.features, 2, on_disk=True))
    assert seen == [2] * 6
    assert all(torch.equal(values(each), values(graph.pre_encoded)) for each in found)


class Machines:
    """Has every rank say that it is on some machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of_ranks: str) -> None:
        for module in (pre_encoding, pre_encoding_across):
            monkeypatch.setattr(module, "machine", lambda: of_ranks[current().rank])


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that ranks began to write."""
    begun: list[Path] = []
    monkeypatch.setattr(
        pre_encoding_across, "keeping", lambda path, *shape: begun.append(path) or keeping(path, *shape)
    )
    return begun


def test_ranks_of_a_machine_write_one_file(
    tmp_path: Path, written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    Machines(monkeypatch, "aaa")
    graph, kept = graph_of(5), tmp_path / "encoded.npy"

    def work(ranks: Ranks) -> Tensor:
        return values(pre_encode_across(ranks, graph.adjacency, graph.features, 2, on_disk=True, kept=kept))

    for _ in range(2):  # the second time it is found
        assert all(torch.equal(found, values(graph.pre_encoded)) for found in on_ranks(3, work))
        assert written == [kept]
    assert [path.name for path in tmp_path.iterdir()] == ["encoded.npy"]
    assert torch.equal(values(pre_encode_on_disk(graph.adjacency, graph.features, 2, kept)), values(graph.pre_encoded))


@pytest.mark.parametrize("shared", [False, True])
def test_machines_write_a_file_each(
    shared: bool, tmp_path: Path, written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they share a folder, which they cannot know."""
    Machines(monkeypatch, "aabb")
    monkeypatch.setattr(os, "getpid", lambda: 4)  # as it may be on two machines
    graph, folders = graph_of(5), [tmp_path / ("a" if shared else name) for name in "aabb"]
    for folder in folders:
        folder.mkdir(exist_ok=True)

    def work(ranks: Ranks) -> Tensor:
        kept = folders[ranks.rank] / "encoded.npy"
        return values(pre_encode_across(ranks, graph.adjacency, graph.features, 2, on_disk=True, kept=kept))

    assert all(torch.equal(found, values(graph.pre_encoded)) for found in on_ranks(4, work))
    assert len(written) == 2
    assert {path.name for folder in folders for path in folder.iterdir()} == {"encoded.npy"}


def test_ranks_that_have_it_give_it_to_those_that_do_not(
    tmp_path: Path, written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    Machines(monkeypatch, "abbc")
    graph, folders = graph_of(6), [tmp_path / name for name in "abbc"]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    wanted = values(pre_encode_on_disk(graph.adjacency, graph.features, 2, folders[0] / "encoded.npy"))
    whole = (folders[0] / "encoded.npy").read_bytes()
    computed, plain = [], pre_encoding._encode_block
    monkeypatch.setattr(pre_encoding, "_encode_block", lambda *a: computed.append(a) or plain(*a))
    (folders[1] / "encoded.npy").write_bytes(whole[:-8])  # torn: no such file is ours, but one may be copied in half

    def work(ranks: Ranks) -> Tensor:
        # The last one has nowhere to keep it.
        kept = None if ranks.rank == 3 else folders[ranks.rank] / "encoded.npy"
        return values(pre_encode_across(ranks, graph.adjacency, graph.features, 2, on_disk=True, kept=kept))

    assert all(torch.equal(found, wanted) for found in on_ranks(4, work))
    assert written == [folders[1] / "encoded.npy"]
    assert written[0].read_bytes() == whole
    assert computed == []
    assert list(folders[3].iterdir()) == []


class DiesError(Exception):
    pass


@pytest.mark.parametrize("at", [1, 2, 4, 6])
@pytest.mark.parametrize("who", [0, 1])
def test_an_exchange_that_is_cut_short_leaves_no_file(
    at: int, who: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "BLOCK_BYTES", 100)
    graph, kept, told = graph_of(4), tmp_path / "encoded.npy", threading.local()

    def work(ranks: Ranks) -> Tensor:
        plain, told.times = ranks.each, 0

        def each(x: Tensor) -> Tensor:
            told.times += 1
            if (ranks.rank, told.times) == (who, at):
                raise DiesError
            return plain(x)

        ranks.each = each  # type: ignore[method-assign]
        return values(pre_encode_across(ranks, graph.adjacency, graph.features, 2, on_disk=True, kept=kept))

    with pytest.raises(DiesError):
        on_ranks(2, work)
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_its_name_is_not_found_and_goes(tmp_path: Path) -> None:
    """What a process leaves that is killed while it writes: the whole size, under another name."""
    graph, kept = graph_of(4), tmp_path / "encoded.npy"

    def killed() -> Path:
        with keeping(kept, NODES, 4):
            (half,) = tmp_path.iterdir()
            left = half.with_name(half.name.replace(f".{os.getpid()}.", ".999999999."))
            left.write_bytes(half.read_bytes())
            return left

    left = killed()
    kept.unlink()
    assert [path.name for path in tmp_path.iterdir()] == [left.name]
    found = pre_encode_on_disk(graph.adjacency, graph.features, 2, kept)
    assert torch.equal(values(found), values(graph.pre_encoded))
    assert [path.name for path in tmp_path.iterdir()] == ["encoded.npy"]


def test_a_folder_that_went_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(HeadtailError, match=r"cannot write .*encoded\.npy: No such file"),
        keeping(tmp_path / "gone" / "encoded.npy", 3, 2),
    ):
        pass
