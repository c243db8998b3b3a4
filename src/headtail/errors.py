"""Problems the user can mend. Each message says what was wrong, where, and what to do."""

import difflib
from collections.abc import Iterable


class HeadtailError(Exception):
    """Base of every error whose message is written for the user; the command line exits with code 2."""


class DataError(HeadtailError):
    """A graph, a feature file or a split that cannot be used as it is."""


class ConfigError(HeadtailError):
    """An unknown setting, a wrong type, or settings that contradict each other."""


class RunError(HeadtailError):
    """A run folder or checkpoint that is missing, damaged, or belongs to another graph."""


class TrainingError(HeadtailError):
    """Training that cannot go on, for example because the loss is no longer a number."""


class RanksError(HeadtailError):
    """Ranks of a job that cannot find each other, see different things, or lost one of them."""


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Returns the tail of an error message: the nearest valid name, then all of them, nearest first."""
    names = sorted(set(valid))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    rest = [other for other in names if other not in near]
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}Valid: {', '.join(near + rest)}."
