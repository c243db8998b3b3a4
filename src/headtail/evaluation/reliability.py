"""Reliability: do links that are given a probability come true as often as it says?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Bin:
    """Pairs of similar probability.

    Attributes:
        predicted: their mean probability.
        observed: the share of links among them, links and negatives weighted to equal shares in all.
        links, negatives: how many there are.
    """

    predicted: float
    observed: float
    links: int
    negatives: int


@dataclass(frozen=True)
class Reliability:
    """How far probabilities can be trusted; links and negatives have equal shares in every figure.

    Attributes:
        brier: mean squared distance of the probability from what was true; 0.25 for a constant ½.
        log_loss: mean of −log of the probability that was given to what was true; log 2 for a constant ½.
        ece: expected calibration error: mean distance of `predicted` from `observed` over the bins.
        bins: ascending, of about equal weight.
    """

    brier: float
    log_loss: float
    ece: float
    bins: Sequence[Bin]

    def figures(self) -> dict[str, float]:
        """Returns the three figures by name."""
        return {"brier": self.brier, "log_loss": self.log_loss, "ece": self.ece}


def measure_reliability(links: Numbers, negatives: Numbers, bins: int = 10) -> Reliability:
    """Judges probabilities, calibrated to a prior of ½, of links [P] and of negatives [Q]."""
    probability = np.concatenate([links, negatives])
    truth = np.repeat([1.0, 0.0], [len(links), len(negatives)])
    weight = np.repeat([0.5 / len(links), 0.5 / len(negatives)], [len(links), len(negatives)])
    place = _quantile_bins(probability, weight, bins)
    share = np.bincount(place, weight)
    predicted = np.bincount(place, weight * probability) / share
    observed = np.bincount(place, weight * truth) / share
    counts = np.bincount(place, truth), np.bincount(place, 1 - truth)
    rows = zip(predicted.tolist(), observed.tolist(), *counts, strict=True)
    return Reliability(
        brier=float(weight @ (probability - truth) ** 2),
        log_loss=float(-(np.log(links).mean() + np.log1p(-negatives).mean()) / 2),
        ece=float(share @ np.abs(predicted - observed)),
        bins=[Bin(mean, true, int(true_count), int(false_count)) for mean, true, true_count, false_count in rows],
    )


def _quantile_bins(values: Numbers, weight: Numbers, bins: int) -> NDArray[np.int64]:
    """Returns the bin of every value; bins have equal weight as far as equal values, which stay together, allow."""
    order = np.argsort(values)
    reached = np.cumsum(weight[order])
    last = np.searchsorted(reached, np.arange(1, bins) / bins * reached[-1])
    edges = np.unique(values[order[last]])
    place = np.searchsorted(edges, values, side="left")
    return np.unique(place, return_inverse=True)[1].astype(np.int64)  # numbered without gaps
