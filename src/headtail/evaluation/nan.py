"""Refuses scores that are not numbers."""

import torch
from torch import Tensor

from headtail.errors import DataError


def refuse_counted_nan(bad: int, scores: int, what: str) -> None:
    """Refuses to go on where some of so many scores were NaN, which may be counted on the way and read at the end.

    Raises:
        DataError: there were some.
    """
    if bad:
        raise DataError(
            f"{bad} of {scores} scores of the {what} are not numbers (NaN) and cannot be ranked; the method that gave "
            "them has probably diverged, or its features contain NaN."
        )


def refuse_nan(scores: Tensor, what: str) -> Tensor:
    """Returns the scores as they are.

    Raises:
        DataError: some are NaN. Every comparison with NaN is false, so they would be ranked as the best.
    """
    refuse_counted_nan(int(torch.isnan(scores).sum()), scores.numel(), what)
    return scores
