"""Batches that are drawn ahead into one place: the same training as from batches drawn as they come."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from headtail.graph.task import make_task
from headtail.sampling.fixed import Fixed, Sizes
from headtail.sampling.fixed_sizes import positives_of
from headtail.sampling.sampler import BatchSampler
from headtail.training import recorded as module
from headtail.training.captured import CapturedStep
from headtail.training.recorded import RecordedBatches
from headtail.training.recording import repeated
from headtail.training.trainer import GnnMethod
from tiny_runs import predictor, small_graph


def method(device: str, **settings: Any) -> GnnMethod:
    config = predictor(device=device, **settings).config
    return GnnMethod.create(make_task(small_graph(), config), config)


def batches_of(made: GnnMethod) -> tuple[BatchSampler, RecordedBatches]:
    sampler = made._plain_batches()
    assert isinstance(sampler, BatchSampler)
    return sampler, RecordedBatches(sampler, lambda: made._orders(sampler), 0)


def test_an_epoch_has_every_link_once(device: torch.device) -> None:
    sampler, batches = batches_of(method(device.type))
    for seed in (3, 4, 3):
        links, pairs, total = [], 0, 0
        for batch in batches.epoch(torch.Generator(device=device).manual_seed(seed)):
            links.append(batch.nodes[batch.positive].clone())
            assert batch.work is not None
            pairs, total = pairs + batch.work.pairs, total + batch.positive.shape[1] + batch.negative.shape[1]
        assert pairs == total
        found, wanted = (
            torch.cat(links, dim=1),
            torch.stack([sampler.batches.supervision.row, sampler.batches.supervision.col]),
        )
        keys = [(each[0] * 1000 + each[1]).sort().values for each in (found, wanted)]
        assert torch.equal(*keys)


def test_the_same_seed_draws_the_same_batches(device: torch.device) -> None:
    _, batches = batches_of(method(device.type))

    def negatives(seed: int) -> list[torch.Tensor]:
        epoch = batches.epoch(torch.Generator(device=device).manual_seed(seed))
        return [batch.nodes[batch.negative].clone() for batch in epoch]

    first, other, again = negatives(1), negatives(2), negatives(1)
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not all(torch.equal(one, two) for one, two in zip(first, other, strict=True))


def test_a_batch_that_does_not_fit_is_drawn_as_it_comes(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    made = method(device.type)

    def tight(*given: Any) -> tuple[Sizes, ...]:
        return tuple(replace(usual, blocks=((usual.blocks[0][0], 60), *usual.blocks[1:])) for usual in sizes(*given))

    sizes = module.sizes_for
    monkeypatch.setattr(module, "sizes_for", tight)
    sampler, batches = batches_of(made)
    found = list(batches.epoch(torch.Generator(device=device).manual_seed(0)))
    assert batches.misfits > 0
    assert sum(batch.work is None for batch in found) == batches.misfits
    assert sum(batch.positive.shape[1] for batch in found) == sampler.batches.supervision.col.numel()


SETTINGS: list[dict[str, Any]] = [
    {},
    {"method": "symmetric", "batches": "edges"},
    {"method": "symmetric", "batches": "rows"},
    {"method": "smlp"},
    {"reverse": True, "layers": 3},
    {"encoder": "gat"},
    {"negatives_per_positive": 3, "objective": "squared_hinge"},
    {"fanout_output": "all", "fanout_inner": 1},
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_run_learns_as_well_as_one_of_plain_batches(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"epochs": 6, "learning_rate": 0.02} | settings
    plain = method("cpu", **settings).fit(None).history
    monkeypatch.setattr(GnnMethod, "captures", property(lambda self: True))
    monkeypatch.setattr(GnnMethod, "batches", lambda self: batches_of(self)[1])
    monkeypatch.setattr(GnnMethod, "step", lambda self, optimizer: CapturedStep(self.loss, optimizer, repeated))
    found = method("cpu", **settings).fit(None).history
    for name in ("links", "pairs_scored"):
        assert [record[name] for record in found] == [record[name] for record in plain]
    for name in ("gnn_node_encodings", "mlp_node_encodings", "blocked_node_encodings"):
        assert found[0][name] == pytest.approx(plain[0][name], rel=0.15, abs=30)
    assert found[-1]["loss"] < found[0]["loss"]
    assert found[-1]["loss"] == pytest.approx(plain[-1]["loss"], rel=0.15)  # other negatives and neighbours


def test_recording_is_left_to_what_cannot_be_bounded() -> None:
    assert method("cpu")._plain_batches().plans is not None  # type: ignore[union-attr]
    assert method("cpu", neighbours="full")._plain_batches().plans is None  # type: ignore[union-attr]
    assert method("cpu", evidence="degrees")._plain_batches().plans is None  # type: ignore[union-attr]


def test_work_that_is_repeated_is_done_each_time() -> None:
    done: list[int] = []
    again: Callable[[], Fixed] = repeated(lambda: done.append(1))  # type: ignore[arg-type, func-returns-value]
    again(), again()
    assert done == [1, 1]


def test_batches_are_drawn_in_the_smallest_size_that_holds_them(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = method(device.type)
    sampler = made._plain_batches()
    assert isinstance(sampler, BatchSampler)
    counts = torch.cat([positives_of(sampler, order) for order in made._orders(sampler)])
    bound = int(counts.median())

    def two_sizes(*given: Any) -> tuple[Sizes, ...]:
        largest = sizes(*given)[-1]
        return replace(largest, positives=bound), largest

    sizes = module.sizes_for
    monkeypatch.setattr(module, "sizes_for", two_sizes)
    _, batches = batches_of(made)
    places = {}
    for number, batch in enumerate(batches.epoch(torch.Generator(device=device).manual_seed(1))):
        assert batch.places is not None
        place = batch.positive.shape[1] <= bound, number % 2
        assert places.setdefault(place, id(batch.places)) == id(batch.places)
    assert {small for small, _ in places} == {True, False}
    assert len(set(places.values())) == len(places)
    assert batches.misfits == 0


def test_a_batch_that_does_not_fit_is_drawn_in_a_larger_size(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two_sizes(*given: Any) -> tuple[Sizes, ...]:
        largest = sizes(*given)[-1]
        return replace(largest, blocks=((largest.blocks[0][0], 60), *largest.blocks[1:])), largest

    sizes = module.sizes_for
    monkeypatch.setattr(module, "sizes_for", two_sizes)
    sampler, batches = batches_of(method(device.type))
    found = [
        batch.nodes[batch.positive].clone() for batch in batches.epoch(torch.Generator(device=device).manual_seed(0))
    ]
    assert batches.misfits == 0
    assert sum(links.shape[1] for links in found) == sampler.batches.supervision.col.numel()
