"""Reliability figures agree with scikit-learn's, and bins are honest about ties."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from headtail.evaluation.reliability import measure_reliability


def planted(pairs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of links and of negatives, as many of both, that come true as often as they say."""
    rng = np.random.default_rng(seed)
    probability = rng.uniform(0.01, 0.99, pairs)
    true = rng.uniform(size=pairs) < probability
    count = min(true.sum(), (~true).sum())
    return probability[true][:count], probability[~true][:count]


def test_figures_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    links, negatives = rng.beta(3, 1, 70), rng.beta(1, 4, 900)
    truth, probability = np.repeat([1, 0], [70, 900]), np.concatenate([links, negatives])
    weight = np.repeat([1 / 70, 1 / 900], [70, 900])
    found = measure_reliability(links, negatives)
    assert found.brier == pytest.approx(brier_score_loss(truth, probability, sample_weight=weight))
    assert found.log_loss == pytest.approx(log_loss(truth, probability, sample_weight=weight))


def test_bins_are_those_of_scikit_learn() -> None:
    links, negatives = planted(4_000)
    truth, probability = np.repeat([1, 0], len(links)), np.concatenate([links, negatives])
    observed, predicted = calibration_curve(truth, probability, n_bins=10, strategy="quantile")
    bins = measure_reliability(links, negatives).bins
    assert [b.predicted for b in bins] == pytest.approx(predicted.tolist(), abs=2e-3)
    assert [b.observed for b in bins] == pytest.approx(observed.tolist(), abs=5e-3)
    assert sum(b.links for b in bins) == sum(b.negatives for b in bins) == len(links)


def test_true_probabilities_are_reliable_and_false_ones_are_not() -> None:
    links, negatives = planted(40_000)
    assert measure_reliability(links, negatives).ece < 0.015
    bold = [p**3 / (p**3 + (1 - p) ** 3) for p in (links, negatives)]
    assert measure_reliability(*bold).ece > 0.08


def test_classes_weigh_the_same_whatever_their_numbers() -> None:
    links, negatives = planted(2_000)
    few, many = measure_reliability(links, negatives), measure_reliability(links, np.tile(negatives, 7))
    assert (many.brier, many.log_loss) == pytest.approx((few.brier, few.log_loss))
    # A pair on the edge of two bins may fall to either side.
    assert many.ece == pytest.approx(few.ece, abs=2e-3)
    assert [b.observed for b in many.bins] == pytest.approx([b.observed for b in few.bins], abs=0.01)
    assert sum(b.negatives for b in many.bins) == 7 * len(negatives)


def test_equal_probabilities_stay_in_one_bin() -> None:
    found = measure_reliability(np.array([0.5] * 3 + [0.9]), np.array([0.5] * 8))
    assert [(b.predicted, b.links, b.negatives) for b in found.bins] == [(pytest.approx(0.5), 3, 8), (0.9, 1, 0)]
    assert found.bins[0].observed == pytest.approx(0.375 / 0.875)
    constant = measure_reliability(np.full(5, 0.5), np.full(50, 0.5))
    assert constant.figures() == pytest.approx({"brier": 0.25, "log_loss": np.log(2), "ece": 0.0})
    assert len(constant.bins) == 1
