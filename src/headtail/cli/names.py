"""Node names that are asked for: on the command line, a line each in a file, or from stdin."""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from headtail.cli.output import which_rank
from headtail.errors import DataError, HeadtailError

STDIN = "-"


def read_names(given: str | None, file: Path | None, option: str) -> list[str | int] | None:
    """Returns the names that an option or its file gives; None where neither is given.

    Args:
        given: names with commas between them, a name that has commas in quotation marks; "-" is stdin.
        file: a name a line, which may have commas; "-" is stdin.
        option: what the option is called, such as "--heads"; that of the file is this with -file.

    Raises:
        HeadtailError: both are given, or what is given cannot be read or names nothing.
    """
    if given is not None and file is not None:
        raise HeadtailError(f"give {option} or {option}-file, not both.")
    if given is None and file is None:
        return None
    if from_stdin(given, file):
        found, where = _lines_of_stdin(option), "stdin"
    elif file is not None:
        found, where = _lines_of(file), str(file)
    else:
        found, where = _between_commas(str(given), option), option
    names: list[str | int] = [name.strip() for name in found if name.strip()]
    if not names:
        raise DataError(f"{where} names no node.")
    return names


def from_stdin(given: str | None, file: Path | None) -> bool:
    """Whether names are to be read from stdin."""
    return STDIN in (given, str(file))


def _lines_of(file: Path) -> Sequence[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise DataError(f"cannot read {file}: {reason}; it should hold a node name per line.") from error


def _lines_of_stdin(option: str) -> Sequence[str]:
    if which_rank():
        raise HeadtailError(f"several ranks cannot share stdin; put the names into a file, for {option}-file.")
    try:
        return sys.stdin.read().splitlines()
    except UnicodeDecodeError as error:
        raise DataError("cannot read stdin: it is not UTF-8 text; it should hold a node name per line.") from error


def _between_commas(text: str, option: str) -> Sequence[str]:
    try:
        return [name for line in csv.reader([text], skipinitialspace=True, strict=True) for name in line]
    except csv.Error as error:
        raise DataError(f'cannot read the names of {option} ({error}): a name with commas stands in "…".') from error
