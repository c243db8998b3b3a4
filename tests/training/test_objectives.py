"""Objectives equal their formulas, pair by pair."""

import math

import pytest
import torch
from torch import Tensor

from headtail.errors import ConfigError
from headtail.training.objectives import OBJECTIVES

POSITIVE = torch.tensor([2.0, -1.0, 0.5])
# Two or three negatives for the first, one for the second, none for the third; not in the order of positives.
NEGATIVE = torch.tensor([1.5, 0.25, -3.0, 4.0])
NEGATIVE_OF = torch.tensor([1, 0, 0, 0])


def hinge_by_hand(positive: list[float], negative: list[float], negative_of: list[int]) -> float:
    losses = [max(0.0, 1 - (positive[of] - score)) ** 2 for score, of in zip(negative, negative_of, strict=True)]
    return sum(losses) / len(losses)


def entropy_by_hand(positive: list[float], negative: list[float], negative_of: list[int]) -> float:
    def log_sigmoid(x: float) -> float:
        return math.log(1 / (1 + math.exp(-x)))

    return -sum(map(log_sigmoid, positive)) / len(positive) - sum(log_sigmoid(-s) for s in negative) / len(negative)


def logistic_by_hand(positive: list[float], negative: list[float], negative_of: list[int]) -> float:
    losses = [math.log(1 + math.exp(score - positive[of])) for score, of in zip(negative, negative_of, strict=True)]
    return sum(losses) / len(losses)


BY_HAND = {"squared_hinge": hinge_by_hand, "cross_entropy": entropy_by_hand, "logistic": logistic_by_hand}


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 0, 2, 1], [1], [2, 2, 0]])
def test_objective_equals_its_formula(name: str, order: list[int]) -> None:
    negative, negative_of = NEGATIVE[order], NEGATIVE_OF[order]
    found = OBJECTIVES[name](POSITIVE, negative, negative_of)
    assert found.dim() == 0
    wanted = BY_HAND[name](POSITIVE.tolist(), negative.tolist(), negative_of.tolist())
    assert float(found) == pytest.approx(wanted, rel=1e-6)


def test_every_objective_is_tested_by_hand() -> None:
    assert set(OBJECTIVES) == set(BY_HAND)
    with pytest.raises(ConfigError, match="did you mean 'squared_hinge'"):
        OBJECTIVES["hinge_squared"]


def test_hinge_is_nothing_once_the_margin_is_kept() -> None:
    assert float(OBJECTIVES["squared_hinge"](torch.tensor([3.0]), torch.tensor([2.0]), torch.tensor([0]))) == 0
    assert float(OBJECTIVES["squared_hinge"](torch.tensor([3.0]), torch.tensor([2.5]), torch.tensor([0]))) == 0.25


def test_logistic_compares_scores_only() -> None:
    moved = OBJECTIVES["logistic"](POSITIVE + 100, NEGATIVE + 100, NEGATIVE_OF)
    assert float(moved) == pytest.approx(float(OBJECTIVES["logistic"](POSITIVE, NEGATIVE, NEGATIVE_OF)), rel=1e-5)
    tie, far = (OBJECTIVES["logistic"](torch.tensor([x]), torch.zeros(1), torch.tensor([0])) for x in (0.0, 50.0))
    assert float(tie) == pytest.approx(math.log(2))
    assert 0 <= float(far) < 1e-20


def test_cross_entropy_weighs_negatives_as_positives_whatever_their_number() -> None:
    scores, of = torch.tensor([0.3]), torch.tensor([0])
    once = OBJECTIVES["cross_entropy"](POSITIVE, scores, of)
    often = OBJECTIVES["cross_entropy"](POSITIVE, scores.repeat(7), of.repeat(7))
    assert float(once) == pytest.approx(float(often))


@pytest.mark.parametrize("name", BY_HAND)
def test_no_negatives_leave_a_finite_loss_and_gradient(name: str) -> None:
    positive = POSITIVE.clone().requires_grad_()
    loss = OBJECTIVES[name](positive, torch.empty(0), torch.empty(0, dtype=torch.long))
    loss.backward()
    alone = -math.log(1 / (1 + math.exp(-2.0))) - math.log(1 / (1 + math.exp(1.0))) - math.log(1 / (1 + math.exp(-0.5)))
    assert float(loss.detach()) == pytest.approx(alone / 3 if name == "cross_entropy" else 0.0)
    assert torch.isfinite(gradient_of(positive)).all()


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("size", [1e3, 1e18])
def test_large_scores_do_not_overflow_where_the_loss_is_finite(name: str, size: float) -> None:
    positive = torch.tensor([-size, size]).requires_grad_()
    loss = OBJECTIVES[name](positive, torch.tensor([size, -size]), torch.tensor([0, 1]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient_of(positive)).all()


@pytest.mark.parametrize("name", BY_HAND)
def test_gradients_by_finite_differences(name: str) -> None:
    positive, negative = (t.double().requires_grad_() for t in (POSITIVE, NEGATIVE))
    assert torch.autograd.gradcheck(lambda p, n: OBJECTIVES[name](p, n, NEGATIVE_OF), (positive, negative))


def gradient_of(tensor: Tensor) -> Tensor:
    assert tensor.grad is not None
    return tensor.grad
