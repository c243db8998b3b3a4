"""Probabilities: planted ones are found again, priors follow Bayes' rule, and no score breaks the map."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from headtail.contract import Scorer
from headtail.errors import ConfigError, DataError
from headtail.evaluation.calibration import Calibration, fit_calibration
from headtail.evaluation.scoring import held_out_scores, scores_of
from headtail.graph.graph import HeldOut

SCORES = st.lists(st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, 1.0, math.inf, -math.inf]), min_size=1)


def normal_scores(links: int, negatives: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Links are N(2, 1), negatives N(0, 1), so the true log ratio of a score s is 2 s − 2."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(links, generator=generator) + 2, torch.randn(negatives, generator=generator)


def log_odds(calibration: Calibration, scores: Tensor, prior: float = 0.5) -> np.ndarray:
    return logit(calibration.probabilities(scores, prior))


@pytest.mark.parametrize(
    "bend", [lambda s: s, lambda s: torch.exp(3 * s), lambda s: s**3], ids=["logit", "exp", "cube"]
)
@pytest.mark.parametrize("prior", [0.5, 0.02])
def test_planted_probabilities_are_found_whatever_the_scale(bend: Callable[[Tensor], Tensor], prior: float) -> None:
    links, negatives = normal_scores(20_000, 50_000)
    asked = torch.linspace(-0.5, 2.5, 31)
    wanted = 2 * asked.double().numpy() - 2 + logit(prior)
    found = log_odds(fit_calibration(bend(links), bend(negatives)), bend(asked), prior)
    assert np.abs(found - wanted).max() < 0.35
    assert np.abs(found - wanted).mean() < 0.12


def mean_log_loss(links: np.ndarray, negatives: np.ndarray) -> float:
    return float(-(np.log(links).mean() + np.log1p(-negatives).mean()) / 2)


def logistic_log_loss(train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]) -> float:
    """The log loss of a logistic curve over the score (Platt), classes weighted to equal shares."""
    curve = LogisticRegression(C=1e6, class_weight="balanced", max_iter=1000)
    truth = np.repeat([1, 0], [len(train[0]), len(train[1])])
    scores = torch.cat(train)
    curve.fit(((scores - scores.mean()) / scores.std())[:, None].numpy(), truth)
    links, negatives = (((part - scores.mean()) / scores.std())[:, None].numpy() for part in test)
    # Its worst certainties are forgiven: unclipped, the loss on skewed scores is infinite.
    return mean_log_loss(*(curve.predict_proba(part)[:, 1].clip(1e-6, 1 - 1e-6) for part in (links, negatives)))


def test_a_logistic_curve_is_hardly_better_on_logits_and_far_worse_on_skewed_scores() -> None:
    train, test = normal_scores(1_000, 20_000), normal_scores(10_000, 20_000, seed=1)
    found = mean_log_loss(*(fit_calibration(*train).probabilities(part) for part in test))
    assert found < logistic_log_loss(train, test) * 1.02
    skewed = [tuple(torch.exp(2 * part) for part in parts) for parts in (train, test)]
    bent = mean_log_loss(*(fit_calibration(*skewed[0]).probabilities(part) for part in skewed[1]))
    assert bent == pytest.approx(found, rel=0.01)
    assert bent < logistic_log_loss(*skewed) * 0.85


def test_counts_get_the_ratio_of_their_frequencies() -> None:
    # Score 0: 1 of 5 links, 80 of 100 negatives; 1: 1 and 15; 2: 3 and 5. One more of each class is taken as missed.
    links = torch.tensor([0.0, 1, 2, 2, 2])
    negatives = torch.tensor([0.0] * 80 + [1.0] * 15 + [2.0] * 5)
    found = log_odds(fit_calibration(links, negatives), torch.tensor([0.0, 1.0, 2.0]))
    wanted = [(2 / 6) / (80 / 101), (1 / 6) / (15 / 101), (3 / 6) / (6 / 101)]
    assert np.exp(found) == pytest.approx(wanted)


@given(links=SCORES, negatives=SCORES)
def test_blocks_are_those_of_isotonic_regression(links: list[float], negatives: list[float]) -> None:
    calibration = fit_calibration(torch.tensor(links), torch.tensor(negatives))
    # The oracle sees every pair, and the two missed ones at scores of their own.
    order = {s: place for place, s in enumerate(sorted({-math.inf, *links, *negatives, math.inf}))}
    places = [-1] + [order[s] for s in links] + [order[s] for s in negatives] + [len(order)]
    truth = [1] * (len(links) + 1) + [0] * (len(negatives) + 1)
    weight = [1 / (len(links) + 1)] * (len(links) + 1) + [1 / (len(negatives) + 1)] * (len(negatives) + 1)
    steps = IsotonicRegression().fit(places, truth, weight).predict(sorted(set(places)))
    assert 1 / (1 + np.exp(-calibration.log_ratios)) == pytest.approx(distinct(steps), rel=1e-9)


def distinct(values: np.ndarray) -> np.ndarray:
    """Returns ascending values without repetitions, rounding errors aside."""
    return values[np.concatenate([[True], np.diff(values) > 1e-12])]


@given(links=SCORES, negatives=SCORES, asked=SCORES)
def test_probabilities_rise_with_the_score_and_are_never_certain(
    links: list[float], negatives: list[float], asked: list[float]
) -> None:
    calibration = fit_calibration(torch.tensor(links), torch.tensor(negatives))
    found = calibration.probabilities(torch.tensor(sorted(asked)))
    assert (np.diff(found) >= -1e-12).all()
    least, most = 1 / (1 + len(links)), 1 / (1 + len(negatives))
    assert (found >= least / (1 + least) - 1e-12).all()
    assert (found <= 1 / (1 + most) + 1e-12).all()


def test_distinct_scores_keep_distinct_probabilities_between_the_outer_knots() -> None:
    links, negatives = normal_scores(300, 3_000)
    calibration = fit_calibration(links, negatives)
    scores = torch.cat([links, negatives]).unique()
    inside = (scores > calibration.scores[0]) & (scores < calibration.scores[-1])
    assert inside.float().mean() > 0.8
    assert (np.diff(calibration.probabilities(scores[inside])) > 0).all()
    beyond = calibration.probabilities(torch.tensor([scores.max(), scores.max() + 100]))
    assert beyond[0] == beyond[1]


@pytest.mark.parametrize("prior", [1e-6, 0.01, 0.3, 0.9])
def test_a_prior_follows_bayes_rule(prior: float) -> None:
    calibration = fit_calibration(*normal_scores(500, 500))
    scores = torch.linspace(-3, 5, 17)
    even = calibration.probabilities(scores)
    wanted = even * prior / (even * prior + (1 - even) * (1 - prior))
    assert calibration.probabilities(scores, prior) == pytest.approx(wanted)


def test_probabilities_at_a_prior_are_the_shares_of_links_in_such_a_mixture() -> None:
    calibration = fit_calibration(*normal_scores(20_000, 50_000))
    links, negatives = normal_scores(2_000, 98_000, seed=1)
    found = calibration.probabilities(torch.cat([links, negatives]), prior=0.02)
    truth = np.repeat([1.0, 0.0], [2_000, 98_000])
    for low, high in ((0.0, 0.01), (0.01, 0.05), (0.05, 0.2), (0.2, 1.0)):
        chosen = (found >= low) & (found < high)
        assert found[chosen].mean() == pytest.approx(truth[chosen].mean(), rel=0.15)


def test_the_number_of_negatives_does_not_matter() -> None:
    links, negatives = normal_scores(5_000, 2_000)
    asked = torch.linspace(0, 2, 9)
    few = log_odds(fit_calibration(links, negatives), asked)
    # Only the one negative that is taken as missed weighs less among copies.
    copied = log_odds(fit_calibration(links, negatives.repeat(50)), asked)
    assert copied == pytest.approx(few, abs=0.01)
    many = log_odds(fit_calibration(links, normal_scores(1, 100_000, seed=1)[1]), asked)
    assert np.abs(many - few).max() < 0.5


def test_equal_scores_say_nothing() -> None:
    calibration = fit_calibration(torch.full((3,), 7.0), torch.full((50,), 7.0))
    assert calibration.probabilities(torch.tensor([-1.0, 7.0, 9.0]), 0.2) == pytest.approx([0.2] * 3)


def test_infinite_scores_have_a_place() -> None:
    infinity = math.inf
    links, negatives = torch.tensor([0.0, 3, infinity, infinity]), torch.tensor([-infinity] * 5 + [1.0] * 5)
    found = fit_calibration(links, negatives).probabilities(torch.tensor([-infinity, 0, 1, 3, infinity]))
    assert np.isfinite(found).all()
    assert found[0] < 0.5 < found[-1]
    assert (np.diff(found) >= 0).all()


@pytest.mark.parametrize(
    ("links", "negatives", "message"),
    [
        ([], [1.0], "0 links and 1 negatives"),
        ([1.0], [], "1 links and 0 negatives"),
        ([1.0], [math.nan], "not numbers"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(links: list[float], negatives: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_calibration(torch.tensor(links), torch.tensor(negatives))


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_a_prior_that_is_no_share_is_refused(prior: float) -> None:
    calibration = fit_calibration(*normal_scores(5, 5))
    with pytest.raises(ConfigError, match=r"prior cannot be .* above 0 and below 1"):
        calibration.probabilities(torch.tensor([0.0]), prior)


class TenTimes(Scorer):
    """Scores 10 · head + tail, and remembers the largest block it was asked for."""

    num_nodes, device, largest = 10, torch.device("cpu"), 0

    def score_pairs(self, heads: Tensor, tails: Tensor) -> Tensor:
        assert heads.shape == tails.shape
        self.largest = max(self.largest, heads.numel())
        return 10.0 * heads + tails


def test_negatives_are_read_as_the_metric_says() -> None:
    held_out = HeldOut(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[5, 6, 7], [7, 8, 9]]))
    links, tails = held_out_scores(TenTimes(), held_out, "mrr")
    assert (links.tolist(), tails.tolist()) == ([13, 24], [15, 16, 17, 27, 28, 29])
    links, pairs = held_out_scores(TenTimes(), held_out, "hits@20")
    assert (links.tolist(), pairs.tolist()) == ([13, 24], [57, 68, 79])


@pytest.mark.parametrize("block_pairs", [1, 2, 4, 5, 100])
def test_blocks_do_not_change_scores(block_pairs: int) -> None:
    scorer = TenTimes()
    scores = scores_of(scorer, torch.tensor([1, 2]), torch.arange(6), 3, block_pairs)
    assert scores.tolist() == [10, 11, 12, 23, 24, 25]
    assert scorer.largest <= block_pairs
