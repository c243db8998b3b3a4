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


def focused_by_hand(positive: list[float], negative: list[float], negative_of: list[int]) -> float:
    believed = [math.sqrt(1 / (1 + math.exp(-score))) for score in negative]
    missed = [math.log(1 + math.exp(score)) for score in negative]
    wrong = sum(weight * loss for weight, loss in zip(believed, missed, strict=True)) / sum(believed)
    return wrong + sum(math.log(1 + math.exp(-score)) for score in positive) / len(positive)


BY_HAND = {"squared_hinge": hinge_by_hand, "cross_entropy": entropy_by_hand, "focused": focused_by_hand}


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


def test_focus_is_on_the_negatives_that_are_believed() -> None:
    negative = torch.tensor([3.0, -1.0, -1.0, -8.0], requires_grad=True)
    OBJECTIVES["focused"](POSITIVE, negative, torch.zeros(4, dtype=torch.long)).backward()
    pull = gradient_of(negative)
    believed = torch.sigmoid(negative.detach())
    # Of cross-entropy it would be σ / Q; here each weighs √σ / Σ√σ instead of 1 / Q.
    torch.testing.assert_close(pull, believed * believed.sqrt() / believed.sqrt().sum())


def test_focused_is_least_where_scores_rank_as_odds_do() -> None:
    """Pairs of a few kinds, each with its share of positives and of negatives: the best scores rise with the odds."""
    positives, negatives = torch.tensor([0.50, 0.30, 0.15, 0.05]), torch.tensor([0.001, 0.019, 0.18, 0.80])
    count = 1000
    positive_kind = torch.repeat_interleave(torch.arange(4), (positives * count).round().long())
    negative_kind = torch.repeat_interleave(torch.arange(4), (negatives * count).round().long())
    scores = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.Adam([scores], lr=0.1)
    for _ in range(1000):
        optimizer.zero_grad()
        OBJECTIVES["focused"](scores[positive_kind], scores[negative_kind], negative_kind).backward()
        optimizer.step()
    found = scores.detach()
    # Where the gradient is nothing, positives · (1 − σ) = negatives · σ√σ / Σ negatives · √σ.
    believed = torch.sigmoid(found)
    wrong = negatives * believed**1.5 / (negatives * believed.sqrt()).sum()
    torch.testing.assert_close(positives * (1 - believed), wrong, rtol=0.01, atol=1e-4)
    assert (found.diff() < 0).all()


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
    assert float(loss.detach()) == pytest.approx(0.0 if name == "squared_hinge" else alone / 3)
    assert torch.isfinite(gradient_of(positive)).all()


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("size", [1e3, 1e18])
def test_large_scores_do_not_overflow_where_the_loss_is_finite(name: str, size: float) -> None:
    positive = torch.tensor([-size, size]).requires_grad_()
    loss = OBJECTIVES[name](positive, torch.tensor([size, -size]), torch.tensor([0, 1]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient_of(positive)).all()


# the weights of `focused` are no part of its gradient, which a test of its own compares
@pytest.mark.parametrize("name", sorted({*BY_HAND} - {"focused"}))
def test_gradients_by_finite_differences(name: str) -> None:
    positive, negative = (t.double().requires_grad_() for t in (POSITIVE, NEGATIVE))
    assert torch.autograd.gradcheck(lambda p, n: OBJECTIVES[name](p, n, NEGATIVE_OF), (positive, negative))


def gradient_of(tensor: Tensor) -> Tensor:
    assert tensor.grad is not None
    return tensor.grad
