"""Refuses scores that are not numbers where they were counted on the way and are read once at the end."""

from headtail.errors import DataError


def refuse_counted_nan(bad: int, scores: int, what: str) -> None:
    """Refuses to go on where some of so many scores were NaN; like `metrics.refuse_nan`, which counts by itself.

    Raises:
        DataError: there were some.
    """
    if bad:
        raise DataError(
            f"{bad} of {scores} scores of the {what} are not numbers (NaN) and cannot be ranked; the method that gave "
            "them has probably diverged, or its features contain NaN."
        )
