"""The running average of weights: a hand loop, lent and given back, kept over interruptions, used in validation."""

import pytest
import torch
from torch import Tensor, nn

from headtail.config import make_config
from headtail.contract import Scorer
from headtail.errors import RunError
from headtail.graph.task import make_task
from headtail.training.averaging import WeightAverage
from headtail.training.checkpoint import CheckpointStore, Progress
from headtail.training.observer import Observer
from headtail.training.trainer import GnnMethod
from tiny_runs import SMALL, small_graph

State = dict[str, Tensor]


def small_model(width: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Linear(width, 1))


def state_of(model: nn.Module) -> State:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def step(model: nn.Module, seed: int) -> None:
    """Moves all weights, and the running statistics."""
    model.train()
    model(torch.randn(5, 3, generator=torch.Generator().manual_seed(seed)))
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(100 * seed + number)))


def by_hand(start: State, steps: list[State], keep: float) -> State:
    """Averages floating-point numbers one step after the other; counters are the newest."""
    average = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in start.items()}
    for number, weights in enumerate(steps):
        kept = min(keep, (1 + number) / (10 + number))
        for name, tensor in weights.items():
            fractional = tensor.is_floating_point()
            average[name] = kept * average[name] + (1 - kept) * tensor.double() if fractional else tensor
    return average


def check_same(found: State, wanted: State) -> None:
    assert found.keys() == wanted.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor.double(), wanted[name].double(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("keep", [0.05, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("steps", [0, 1, 2, 30])
def test_average_equals_a_hand_loop(keep: float, steps: int) -> None:
    model = small_model()
    average, start, seen = WeightAverage(model, keep), state_of(model), []
    for number in range(steps):
        step(model, number)
        average.update()
        seen.append(state_of(model))
    with average.in_place():
        found = state_of(model)
    check_same(found, by_hand(start, seen, keep))


def test_the_start_is_forgotten() -> None:
    model = small_model()
    average = WeightAverage(model, 0.999)
    step(model, 1)
    for _ in range(60):
        average.update()
    with average.in_place():
        lent = state_of(model)
    check_same(lent, state_of(model))


def test_weights_come_back_exactly() -> None:
    model = small_model()
    average = WeightAverage(model, 0.9)
    step(model, 1)
    average.update()
    before, places = state_of(model), [parameter.data_ptr() for parameter in model.parameters()]
    lent = []
    for _ in range(2):
        with average.in_place():
            lent.append(state_of(model))
        assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not torch.equal(lent[0]["0.weight"], before["0.weight"])
    assert all(torch.equal(tensor, lent[1][name]) for name, tensor in lent[0].items())
    assert [parameter.data_ptr() for parameter in model.parameters()] == places  # the optimiser holds on to them


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_weights_come_back_after_an_exception(error: type[BaseException]) -> None:
    model = small_model()
    average = WeightAverage(model, 0.9)
    step(model, 1)
    average.update()
    before = state_of(model)
    with pytest.raises(error), average.in_place():
        raise error
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_restored_average_goes_on_as_the_first() -> None:
    model = small_model()
    average = WeightAverage(model, 0.9)
    for number in range(4):
        step(model, number)
        average.update()
    other = WeightAverage(model, 0.9)
    other.restore({name: tensor.clone() for name, tensor in average.state().items()})
    step(model, 9)
    average.update()
    other.update()
    with average.in_place():
        wanted = state_of(model)
    with other.in_place():
        assert all(torch.equal(tensor, wanted[name]) for name, tensor in model.state_dict().items())


def test_a_checkpoint_without_average_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    model = small_model()
    optimizer, store = torch.optim.Adam(model.parameters()), CheckpointStore(tmp_path, "graph", "settings")
    store.save(model, optimizer, Progress())
    with pytest.raises(RunError, match="does not fit the model"):
        store.load(model, optimizer, WeightAverage(model, 0.9))
    store.save(model, optimizer, Progress(), WeightAverage(model, 0.9))
    wide = small_model(5)
    with pytest.raises(RunError, match="does not fit the model"):
        store.load(wide, torch.optim.Adam(wide.parameters()), WeightAverage(wide, 0.9))


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0.0, 0.6])
def test_training_validates_and_keeps_the_average(keep: float, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SMALL | {"epochs": 3, "batches_per_epoch": 2, "averaging": keep}
    config = make_config(settings=settings)
    method = GnnMethod.create(make_task(small_graph(), config), config)
    seen: list[State] = []
    take_step = torch.optim.Adam.step

    def recorded(optimizer: torch.optim.Adam, *rest: object) -> None:
        take_step(optimizer, *rest)  # type: ignore[arg-type]
        seen.append(state_of(method.model))

    monkeypatch.setattr(torch.optim.Adam, "step", recorded)
    start: list[State] = []
    batches = method.batches

    def begun():  # type: ignore[no-untyped-def]
        found = batches()
        start.append(state_of(method.model))
        return found

    monkeypatch.setattr(method, "batches", begun)
    judged: list[State] = []

    def ever_better(scorer: Scorer) -> dict[str, float]:
        judged.append(state_of(method.model))
        return {"mrr": len(judged) / 10}

    progress = method.fit(ever_better, Observer())
    assert len(seen) >= 6
    wanted = by_hand(start[0], seen, keep) if keep else seen[-1]
    check_same(judged[-1], wanted)
    check_same(progress.best_weights, wanted)
    check_same(state_of(method.model), wanted)
