"""Batches of fixed size that fused kernels draw are those that torch draws, number by number."""

from dataclasses import replace

import pytest
import torch
from fused_case import DEVICE, needs_kernels
from torch import Tensor

from headtail.graph.view import GraphView
from headtail.sampling.batches import BATCHES
from headtail.sampling.fixed import FixedSampler, Sizes
from headtail.sampling.fixed_sizes import sizes_for
from headtail.sampling.negatives import NegativeSpace
from headtail.sampling.neighbours import NEIGHBOURS, Fanout
from headtail.sampling.padding import tensors_of
from headtail.sampling.sampler import BatchSampler
from random_graphs import message_graph, random_view


def sampler_of(view: GraphView, kind: str, fanout: Fanout, batches: int) -> BatchSampler:
    rows = view.to(DEVICE).out_rows
    return BatchSampler(
        graph=message_graph(view.to(DEVICE), dim=2, normalisation="symmetric", device=DEVICE),
        batches=BATCHES[kind](rows, -(-rows.col.numel() // batches)),
        negatives="uniform",
        negatives_per_positive=1,
        negative_space=NegativeSpace(rows),
        neighbours=NEIGHBOURS["bns"](fanout),
        gnn_scope="rows",
        layers=3,
        reads_features=True,
    )


def drawn(sampler: BatchSampler, sizes: Sizes, count: int) -> list[Tensor]:
    """Returns all tensors of some batches of an epoch."""
    generator = torch.Generator(device=DEVICE).manual_seed(1)
    plans = sampler.plans
    assert plans is not None
    fixed = FixedSampler(sampler, plans, sizes)
    fixed.begin(sampler.batches.order(generator))
    found = [fixed.draw(generator) for _ in range(count)]
    return [t.clone() for one in found for t in (one.facts, *tensors_of(one.batch))]


def compare(sampler: BatchSampler, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = sampler.plans
    assert plans is not None
    orders = [sampler.batches.order(torch.Generator(device=DEVICE).manual_seed(1))]
    sizes = sizes_for(sampler, plans, orders, seed=0)[-1]
    found = drawn(sampler, sizes, count)
    monkeypatch.setattr("headtail.kernels.launch.interpreted", lambda: False)
    monkeypatch.setenv("HEADTAIL_ENGINE", "0")
    wanted = drawn(sampler, sizes, count)
    assert int(wanted[0][0]) == 1
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=1e-5 if ours.is_floating_point() else 0, atol=0)


@needs_kernels
@pytest.mark.parametrize(
    ("kind", "negatives", "scope", "fanout"),
    [
        ("rows", "uniform", "rows", Fanout(3, 2)),
        ("rows", "tail", "all", Fanout(None, 2)),
        ("rows", "near", "none", Fanout(3, 2)),
        ("edges", "tail", "rows", Fanout(2, 1)),
    ],
)
def test_whole_batches(kind: str, negatives: str, scope: str, fanout: Fanout, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = sampler_of(random_view(60, 300), kind, fanout, batches=4)
    sampler = replace(sampler, negatives=negatives, gnn_scope=scope, negatives_per_positive=2)
    compare(sampler, 2, monkeypatch)


@needs_kernels
@pytest.mark.slow
def test_a_batch_of_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows, pairs and nodes than one program of any kernel works on."""
    compare(replace(sampler_of(random_view(5000, 5000), "rows", Fanout(2, 1), batches=3), layers=2), 1, monkeypatch)
