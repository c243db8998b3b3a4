"""Recorded steps against plain ones, and padded batches on every device."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from headtail.errors import ConfigError
from headtail.graph.task import make_task
from headtail.sampling.padding import Capacity
from headtail.sampling.sampler import BatchSampler
from headtail.training.captured import CapturedStep, PaddedBatches
from headtail.training.observer import Observer
from headtail.training.steps import Loss
from headtail.training.trainer import GnnMethod
from tiny_runs import predictor, small_graph


@pytest.fixture(autouse=True)
def engine_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTAIL_ENGINE", "1")


def method(device: str, **settings: Any) -> GnnMethod:
    graph = small_graph()
    config = predictor(device=device, **settings).config
    return GnnMethod.create(make_task(graph, config), config)


class Heard(Observer):
    """The loss of every batch."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def batch_done(self, epoch: int, batch: int, batches: int, links: int, loss: float) -> None:
        self.losses.append(loss)


def losses(made: GnnMethod) -> list[float]:
    """Trains, and returns the loss of every batch: a batch that is not the right one would show."""
    heard = Heard()
    made.fit(None, heard)
    return heard.losses


def assert_learned_alike(found: list[float], wanted: list[float]) -> None:
    """Rounding grows with the steps, since Adam makes steps of gradients that are nothing but rounding."""
    assert len(found) == len(wanted) > 8
    assert found[:2] == pytest.approx(wanted[:2], rel=1e-3)
    assert found == pytest.approx(wanted, rel=2e-2)


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_a_cpu_refuses_what_it_cannot_do_before_any_work(precision: str) -> None:
    with pytest.raises(ConfigError, match=f"precision '{precision}' needs a GPU"):
        method("cpu", precision=precision)


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


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_batches_that_are_copied_to_one_place_are_learned_alike(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that recording does but the recording itself: what it plays again is the plain step at that place."""
    settings = {"epochs": 3} | settings
    wanted = losses(method("cpu", **settings))
    plays = []

    def again(work: Callable[[], Loss], generator: torch.Generator | None = None) -> Callable[[], Loss]:
        def play() -> Loss:
            plays.append(1)
            return work()

        return play

    monkeypatch.setattr(GnnMethod, "captures", property(lambda self: True))
    monkeypatch.setattr(BatchSampler, "plans", None)  # batches that are padded, not drawn in one place
    monkeypatch.setattr(GnnMethod, "step", lambda self, optimizer: CapturedStep(self.loss, optimizer, again))
    assert_learned_alike(losses(method("cpu", **settings)), wanted)
    assert len(plays) == len(wanted) - 1


@pytest.mark.gpu
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_recorded_steps_learn_what_plain_steps_learn(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"epochs": 3, "precision": "fp32"} | settings
    # The same batches, padded and learned by recorded steps; batches that are recorded too are others.
    monkeypatch.setattr(BatchSampler, "plans", None)
    recorded = method("cuda", **settings)
    assert recorded.captures
    found = losses(recorded)
    monkeypatch.setattr(GnnMethod, "captures", property(lambda self: False))
    assert_learned_alike(found, losses(method("cuda", **settings)))


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_a_gpu_learns_what_a_cpu_learns(precision: str) -> None:
    on_gpu = method("cuda", epochs=6, precision=precision, neighbours="full").fit(None).history
    on_cpu = method("cpu", epochs=6, neighbours="full").fit(None).history
    found, wanted = ([record["loss"] for record in history] for history in (on_gpu, on_cpu))
    assert found[-1] < 0.9 * found[0]
    assert found == pytest.approx(wanted, rel=0.1)  # other batches and negatives, the same task


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
