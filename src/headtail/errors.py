"""Problems the user can mend. Each message says what was wrong, where, and what to do."""

import difflib
from collections.abc import Iterable

# A message quotes what files hold, which may be ten million characters, or codes that a terminal would obey.
_LONGEST, _END = 1500, 300
_LONGEST_NAME, _MOST_NAMES = 200, 1000


class HeadtailError(Exception):
    """Base of every error whose message is written for the user; the command line exits with code 2.

    Whatever the message quotes, it is one printable line of bounded length.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


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


def one_line(message: str) -> str:
    """Returns a message as one printable line of bounded length."""
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST - _END]} … {message[-_END:]}"
    shown = (char if char.isprintable() else char.encode("unicode_escape").decode() for char in message)
    return "".join(" " if char in ("\\n", "\\r", "\\t") else char for char in shown).strip()


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Returns the tail of an error message: the nearest valid name, then all of them, nearest first."""
    names = sorted(set(valid))
    # Comparing takes the product of the lengths: of what is far longer than a name, or of a million names, too long.
    short = [other for other in names[:_MOST_NAMES] if len(other) <= _LONGEST_NAME]
    near = difflib.get_close_matches(name, short, n=3, cutoff=0.5) if len(name) <= _LONGEST_NAME else []
    rest = [other for other in names if other not in near]
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}Valid: {', '.join(near + rest)}."
