"""Calibration: from scores to probabilities, learned from held-out links and their negatives.

What is learned is a likelihood ratio: how many times likelier a score is for a true link than for a negative. It
does not depend on how many negatives there are, which is a choice of the evaluation. A prior, the share of true
links among the pairs asked about, turns it into a probability by Bayes' rule:

    odds(link | score) = ratio(score) · prior / (1 − prior)

The ratio is the centred isotonic regression of the class on the score: only the order of the scores decides how they
are pooled, so logits, counts and sums of weights are served alike. A logistic curve (Platt) is about as good for
logits and far worse for skewed scores, as those of heuristics are.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from headtail.contract import Scorer
from headtail.errors import ConfigError, DataError
from headtail.evaluation.nan import refuse_nan
from headtail.evaluation.scoring import held_out_scores
from headtail.graph.task import LinkTask

Numbers = NDArray[np.float64]
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Calibration:
    """A non-decreasing map from score to likelihood ratio.

    Between the outermost knots, log ratios are interpolated, so distinct scores keep distinct probabilities wherever
    the ratio rises. Beyond them they are level: the data says nothing about scores more extreme than its own.

    Attributes:
        scores: float64 [B], ascending; the mean score of each block that isotonic regression pooled.
        log_ratios: float64 [B], ascending; how much likelier the block is among links than among negatives.
    """

    scores: Numbers
    log_ratios: Numbers

    def probabilities(self, scores: Tensor, prior: float = 0.5) -> Numbers:
        """Returns float64 [P], the probability that each pair is a link.

        Args:
            scores: [P], from the scorer that was calibrated.
            prior: the share of true links among pairs like these; 0.5 takes a link to be as likely as a negative.

        Raises:
            ConfigError: the prior is not between 0 and 1.
        """
        from scipy.special import expit  # here, for most commands have no use for SciPy

        check_prior(prior)
        ratios = np.interp(_finite(scores), self.scores, self.log_ratios)
        return np.asarray(expit(ratios + math.log(prior) - math.log1p(-prior)), dtype=np.float64)


def check_prior(prior: float) -> None:
    """Refuses a prior that no evidence could change, or that is no share at all."""
    if not 0 < prior < 1:
        raise ConfigError(
            f"prior cannot be {prior}: it is the share of true links among the pairs asked about, "
            "above 0 and below 1 (for example 0.01)."
        )


def calibrate(scorer: Scorer, task: LinkTask) -> Calibration:
    """Learns from the validation links, as `scorer` scores them from the training view.

    Raises:
        ConfigError: the validation links were trained on, so their scores are no measure of unseen links.
    """
    if task.protocol == "val-as-train":
        raise ConfigError(
            "probabilities are learned from validation links that training has not seen, but protocol val-as-train "
            "trains on them; train with protocol clean or ogb to get probabilities."
        )
    return fit_calibration(*held_out_scores(scorer, task.split.valid, task.metric))


def fit_calibration(positives: Tensor, negatives: Tensor) -> Calibration:
    """Learns the likelihood ratio from the scores of links [P] and of negatives [Q].

    One link below all scores and one negative above them are taken to have been missed. Without them a ratio could
    be 0 or infinite, a certainty that no finite sample supports.

    Raises:
        DataError: there are no links or no negatives, or scores are NaN.
    """
    from sklearn.isotonic import isotonic_regression  # a second and more, which few commands have to wait for

    if positives.numel() == 0 or negatives.numel() == 0:
        raise DataError(
            f"{positives.numel()} links and {negatives.numel()} negatives cannot be told apart by their scores: "
            "probabilities need validation links and negatives, at least one of each."
        )
    links = _finite(refuse_nan(positives, "validation links"))
    others = _finite(refuse_nan(negatives, "validation negatives"))
    # The ratio can rise only where a link stands: a negative goes with the last link at or below it, or comes first.
    steps, at_step = np.unique(links, return_counts=True)
    place = np.searchsorted(steps, others, side="right")
    count = len(steps) + 1
    link_counts = np.concatenate([[0], at_step]).astype(np.float64)
    other_counts = np.bincount(place, minlength=count).astype(np.float64)
    link_share, other_share = _with_one_more(link_counts, 0), _with_one_more(other_counts, -1)
    share = link_share + other_share
    rising = isotonic_regression(link_share / share, sample_weight=share)
    block = np.concatenate([[0], np.cumsum(np.diff(rising) > 0)])
    log_ratios = np.log(np.bincount(block, link_share)) - np.log(np.bincount(block, other_share))
    # Knots are means of what was seen; links and negatives weigh the same in all, whatever their numbers.
    link_weight, other_weight = 1 / len(links), 1 / len(others)
    sums = np.concatenate([[0], steps * at_step]) * link_weight + np.bincount(place, others, count) * other_weight
    seen = link_counts * link_weight + other_counts * other_weight
    knots = np.bincount(block, sums) / np.bincount(block, seen)
    # Both ascend but for rounding, which must not turn the order of two pairs.
    return Calibration(np.maximum.accumulate(knots), np.maximum.accumulate(log_ratios))


def _with_one_more(counts: Numbers, place: int) -> Numbers:
    """Returns the counts as shares, after one more was counted at a place."""
    more = counts.copy()
    more[place] += 1
    return more / float(more.sum())


def _finite(scores: Tensor) -> Numbers:
    """Returns scores as float64, infinite ones as the largest that are not: means must exist."""
    return np.asarray(scores.double().clamp(-LARGEST, LARGEST).cpu().numpy(), dtype=np.float64)
