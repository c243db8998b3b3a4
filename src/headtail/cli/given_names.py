"""Node names on the command line: between commas, one per line of a file, or one per line of standard input."""

import csv
import sys
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from headtail.cli.output import which_rank
from headtail.errors import DataError, HeadtailError

STDIN = "-"


@dataclass(frozen=True)
class GivenNames:
    """Names as they were given; `whole` is the text they were between commas of, which may be one name itself."""

    names: list[str]
    whole: str | None = None

    def among(self, nodes: Container[object]) -> list[str]:
        """Returns the names that are meant, given what is called a node."""
        return self.names if self.whole is None or self.whole not in nodes else [self.whole]


def given_names(option: str, text: str | None, file: Path | None) -> GivenNames | None:
    """Reads the values of an option `--heads` and of its like `--heads-file`; None: neither was given.

    Raises:
        HeadtailError: both were, or nothing is named, or it cannot be read.
    """
    if text is not None and file is not None:
        raise HeadtailError(f"give {option} or {option}-file, not both.")
    if text is None and file is None:
        return None
    whole = None
    if from_stdin(text, file):
        found = _standard_input(option).splitlines()
    elif file is not None:
        found = _text_of(file).splitlines()
    else:
        whole = str(text).strip()
        found = _between_commas(option, whole)
    names = [name.strip() for name in found if name.strip()]
    if not names:
        raise DataError(f"{file or option} names no node.")
    return GivenNames(names, whole)


def from_stdin(text: str | None, file: Path | None) -> bool:
    """Whether names are to be read from standard input."""
    return STDIN in (text, str(file))


def _between_commas(option: str, text: str) -> list[str]:
    """Splits as CSV does: a name with commas stands between quotation marks."""
    try:
        return next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise DataError(
            f"{option} {text!r} cannot be split at its commas ({error}); write one name per line of a file, and give "
            f"{option}-file FILE."
        ) from error


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise DataError(f"cannot read {file}: {reason}; it should hold a node name per line.") from error


def _standard_input(option: str) -> str:
    if which_rank():
        raise HeadtailError(
            f"several ranks cannot share standard input; write the names to a file and give {option}-file."
        )
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError("standard input is not UTF-8 text; it should hold a node name per line.") from error
