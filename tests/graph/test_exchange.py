"""Rows that ranks have, joined; what one rank made, on all."""

import pytest
import torch
from torch import Tensor

from headtail.config import make_config
from headtail.errors import RanksError
from headtail.graph import exchange, features, structure
from headtail.graph.exchange import exchange_rows, told_by_first
from headtail.graph.features import make_features
from headtail.graph.structure import FixedColumns
from headtail.graph.tables import HostTable
from headtail.graph.view import GraphView
from headtail.ranks import ALONE, Ranks
from random_graphs import graph_of, random_view
from threads_as_ranks import current, on_ranks


@pytest.mark.parametrize("block", [1, 100, 2**20])
@pytest.mark.parametrize("bounds", [[0, 4, 9], [0, 0, 9], [0, 7, 7, 8, 9], [0, 0, 0]])
def test_rows_become_whole(bounds: list[int], block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "BLOCK_BYTES", block)
    wanted = torch.randn(bounds[-1], 3)

    def work(ranks: Ranks) -> Tensor:
        own = torch.full_like(wanted, torch.nan)
        own[bounds[ranks.rank] : bounds[ranks.rank + 1]] = wanted[bounds[ranks.rank] : bounds[ranks.rank + 1]]
        if ranks.rank == 1:  # it may lie elsewhere
            table = HostTable(own, own.device)
            exchange_rows(ranks, table, bounds)
            return table.values
        exchange_rows(ranks, own, bounds)
        return own

    assert all(torch.equal(found, wanted) for found in on_ranks(len(bounds) - 1, work))


def test_shares_cost_alike() -> None:
    degrees = torch.tensor([90, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    costs = torch.cat([torch.zeros(1, dtype=torch.long), degrees.cumsum(0)])
    ranks = Ranks()
    for size, wanted in ((1, [0, 11]), (2, [0, 1, 11]), (10, [0, *[1] * 9, 11]), (11, [0, *[1] * 10, 11])):
        ranks.size = size
        bounds = ranks.spans(costs)
        assert bounds == wanted
    ranks.size = 3
    assert ranks.spans(torch.arange(6)) == [0, 1, 3, 5]
    assert ranks.spans(torch.zeros(1, dtype=torch.long)) == [0, 0, 0, 0]
    assert ranks.spans(torch.zeros(5, dtype=torch.long)) == [0, 0, 0, 4]


def test_all_have_what_the_first_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "BLOCK_BYTES", 50)
    tables = [torch.randn(7, 2) * -0.0, torch.randn(7, 2), torch.full((7, 2), torch.nan)]
    wanted = tables[0].clone()
    on_ranks(3, lambda ranks: told_by_first(ranks, tables[ranks.rank]))
    assert all(torch.equal(table.view(torch.int32), wanted.view(torch.int32)) for table in tables)
    told_by_first(ALONE, tables[0])


def test_structure_is_that_of_the_first_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of another kind rounds otherwise; here, a rank adds its number."""
    monkeypatch.setattr(features, "current", current)

    def make(view: GraphView, dim: int, seed: int, device: str) -> FixedColumns:
        return FixedColumns(torch.full((view.num_nodes, dim), float(current().rank + 3)))

    monkeypatch.setitem(structure.STRUCTURES._entries, "svd", make)
    config, view = make_config("fast", settings={"structure": 4}), random_view()
    graph = graph_of(view.links, view.num_nodes)
    found = on_ranks(3, lambda _ranks: make_features(graph, view, config).tensors()["structure_table"])
    assert all(torch.equal(each, torch.full((view.num_nodes, 4), 3.0)) for each in found)
    other = random_view(seed=1)
    with pytest.raises(RanksError, match="rank 1 of 2: the graph is not that of rank 0"):
        on_ranks(2, lambda ranks: make_features(graph, other if ranks.rank else view, config))
