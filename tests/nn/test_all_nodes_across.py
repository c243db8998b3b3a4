"""All nodes encoded by several ranks, each some rows, against one process that encodes all."""

import pytest
import torch
from tiny_models import make_model, randomise
from torch import Tensor

from headtail.graph import exchange, tables
from headtail.graph.message import MessageGraph
from headtail.graph.tables import HostTable, rows_of
from headtail.nn import all_nodes, encoders
from headtail.nn.encoders import HeadEncoder, LayerStyle, TailEncoder
from headtail.nn.models import ModelShape
from headtail.ranks import Ranks
from random_graphs import message_graph, random_view
from threads_as_ranks import on_ranks

IN, DIM = 5, 6


def whole(table: Tensor | HostTable) -> Tensor:
    return rows_of(table, slice(None))


def check(found: list[list[Tensor]], wanted: list[Tensor]) -> None:
    """The same on all ranks, bit for bit; that of one process but for the order of sums in products."""
    for rank in found:
        for one, first, alone in zip(rank, found[0], wanted, strict=True):
            assert torch.equal(one, first)
            torch.testing.assert_close(one, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [3, pytest.param(30, marks=pytest.mark.slow)])  # of which some have no rows
@pytest.mark.parametrize("spared", [0, 16])
@pytest.mark.parametrize("elements", [1, 400])
@pytest.mark.parametrize("encoder", ["sage", "gat", "pyg:GATv2Conv"])
@pytest.mark.parametrize("statistics", ["running", "graph"])
def test_encoders(
    encoder: str, statistics: str, elements: int, spared: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if spared and statistics == "running":
        pytest.skip("nothing is done at once")
    graph, style = message_graph(random_view(25, 60), IN, layers=2), LayerStyle(DIM, statistics=statistics)
    head, tail = HeadEncoder(encoder, IN, 2, style), TailEncoder(encoder, IN, 2, style)
    for seed, part in enumerate((head, tail)):
        randomise(part, seed)
        part.eval()
    wanted = [whole(head.encode_all(graph)), whole(tail.encode_all(graph, head.convolutions))]
    monkeypatch.setattr(all_nodes, "BLOCK_ELEMENTS", elements)
    monkeypatch.setattr(encoders, "SPARED_BLOCKS", spared)
    monkeypatch.setattr(exchange, "BLOCK_BYTES", 500)

    def work(ranks: Ranks) -> list[Tensor]:
        return [whole(head.encode_all(graph, ranks)), whole(tail.encode_all(graph, head.convolutions, ranks))]

    check(on_ranks(size, work), wanted)


@pytest.mark.parametrize("method", ["aml", "symmetric", "smlp"])
@pytest.mark.parametrize("spilled", [False, True])
def test_models(method: str, spilled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = message_graph(random_view(25, 60), IN)
    model = make_model(method, ModelShape(IN, DIM, 2, norm_statistics="graph")).eval()
    wanted = [whole(table) for table in model.represent_all(graph)]
    monkeypatch.setattr(tables, "has_room", lambda _device, _needed: not spilled)
    # One rank has its features in host memory, and all make their own pre-encoding together.
    here = [HostTable(whole(graph.features), graph.device), *[graph.features] * 2]

    def work(ranks: Ranks) -> list[Tensor]:
        own = MessageGraph(graph.adjacency, "row", here[ranks.rank], 2, ranks=ranks)
        return [whole(table) for table in model.represent_all(own, ranks)]

    check(on_ranks(3, work), wanted)


def test_each_row_is_encoded_by_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, seen, plain = message_graph(random_view(25, 60), IN), [], all_nodes.write_rows
    monkeypatch.setattr(
        all_nodes, "write_rows", lambda table, first, rows: seen.append((first, len(rows))) or plain(table, first, rows)
    )
    head = HeadEncoder("sage", IN, 1, LayerStyle(DIM)).eval()
    on_ranks(4, lambda ranks: head.encode_all(graph, ranks))
    ends = [first + count for first, count in sorted(seen)]
    assert [0, *ends[:-1]] == [first for first, _ in sorted(seen)]
    assert ends[-1] == 25
    # The first nodes have many neighbours, so who has them has fewer rows.
    assert sorted(seen)[0][1] < sorted(seen)[-1][1]
