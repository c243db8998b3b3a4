"""Recorded steps against plain ones, and padded batches on every device."""

from typing import Any

import pytest
import torch

from headtail.graph.task import make_task
from headtail.sampling.padding import Capacity
from headtail.training.captured import PaddedBatches
from headtail.training.observer import Observer
from headtail.training.trainer import GnnMethod
from tiny_runs import predictor, small_graph


@pytest.fixture(autouse=True)
def engine_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTAIL_ENGINE", "1")


def method(device: str, **settings: Any) -> GnnMethod:
    graph = small_graph()
    config = predictor(device=device, **settings).config
    return GnnMethod.create(make_task(graph, config), config)


def losses(made: GnnMethod) -> list[float]:
    return [record["loss"] for record in made.fit(None).history]


def test_the_capacity_depends_on_the_seed_alone() -> None:
    made = method("cpu")
    first, again = (PaddedBatches.around(made.batches(), 3, made.device).capacity for _ in range(2))
    assert first == again


def test_an_epoch_of_padded_batches_has_the_same_links(generator: torch.Generator) -> None:
    made = method("cpu")
    plain = made.batches()
    batches = list(PaddedBatches.around(plain, 0, made.device).epoch(generator))
    wanted = list(plain.epoch(generator.manual_seed(generator.initial_seed())))
    assert len(batches) == len(wanted) == len(plain)
    for batch, want in zip(batches, wanted, strict=True):
        assert batch.counts is not None
        assert torch.equal(batch.positive, want.positive)
        assert int(batch.counts.positives) == want.positive.shape[1]
        found, plainly = (float(made.loss(each).value.detach()) for each in (batch, want))
        assert found == pytest.approx(plainly, rel=1e-4)


def test_a_batch_that_does_not_fit_is_left_as_it_is(generator: torch.Generator) -> None:
    made = method("cpu")
    small = Capacity.of(next(made.batches().epoch(generator)))
    tight = PaddedBatches(made.batches(), small)
    batches = list(tight.epoch(generator))
    assert {batch.counts is None for batch in batches} == {True, False}
    assert all(small.holds(Capacity.of(batch.unpadded)) for batch in batches if batch.unpadded is not None)


SETTINGS: list[dict[str, Any]] = [
    {},
    {"method": "symmetric", "batches": "edges"},
    {"method": "smlp"},
    {"reverse": True, "layers": 3},
    {"folds": 2, "evidence": "degrees,common,paths", "objective": "focused", "averaging": 0.9},
    {"structure": 4, "folds": 2},
    {"negatives_per_positive": 3, "objective": "squared_hinge"},
    {"neighbours": "full", "weight_decay": 0.01},
]


@pytest.mark.gpu
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_recorded_steps_learn_what_plain_steps_learn(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"epochs": 3, "precision": "fp32"} | settings
    recorded = method("cuda", **settings)
    assert recorded.captures
    found, state = losses(recorded), recorded.weights()
    monkeypatch.setattr(GnnMethod, "captures", property(lambda self: False))
    plain = method("cuda", **settings)
    assert found == pytest.approx(losses(plain), rel=1e-3)
    for name, tensor in plain.weights().items():
        torch.testing.assert_close(state[name], tensor, rtol=1e-2, atol=1e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_a_gpu_learns_what_a_cpu_learns(precision: str) -> None:
    on_gpu = losses(method("cuda", epochs=6, precision=precision, neighbours="full"))
    on_cpu = losses(method("cpu", epochs=6, neighbours="full"))
    assert on_gpu[-1] < 0.9 * on_gpu[0]
    assert on_gpu == pytest.approx(on_cpu, rel=0.1)  # other batches and negatives, the same task


@pytest.mark.gpu
def test_one_seed_fixes_a_run_on_a_gpu() -> None:
    first, again = (method("cuda", epochs=3) for _ in range(2))
    assert losses(first) == losses(again)
    for one, two in zip(first.weights().values(), again.weights().values(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.gpu
def test_memory_does_not_grow_over_fifty_epochs() -> None:
    used: list[int] = []
    made = method("cuda", epochs=50)

    class Watch(Observer):
        def epoch_done(self, record: object) -> None:
            used.append(torch.cuda.memory_allocated())

    made.fit(None, Watch())
    assert max(used[10:]) <= used[5] + 2**20
