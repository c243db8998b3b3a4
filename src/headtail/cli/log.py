"""What the library logs, on stderr for whoever runs a command: one line each, above any progress bar."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from headtail.cli.output import say, which_rank
from headtail.errors import one_line

LOG = logging.getLogger("headtail")


@contextmanager
def shown_log(debug: bool) -> Iterator[None]:
    """Shows what is logged while a command runs: what was chosen and why, warnings, and details where asked for.

    Of several ranks the first speaks for all; the others only warn.
    """
    lines, before = _Lines(), LOG.level
    follows = which_rank() != "" and os.environ.get("RANK") != "0"
    level = logging.WARNING if follows else logging.INFO
    LOG.addHandler(lines)
    LOG.setLevel(logging.DEBUG if debug else level)
    try:
        yield
    finally:
        LOG.removeHandler(lines)
        LOG.setLevel(before)


class _Lines(logging.Handler):
    """Says each sentence once: training, evaluation and whoever loads a run may all find the same."""

    def __init__(self) -> None:
        super().__init__()
        self.said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        kind = f"warning{which_rank()}: " if record.levelno >= logging.WARNING else ""
        sentence = f"{kind}{one_line(record.getMessage()).rstrip('.')}."
        if sentence not in self.said:
            self.said.add(sentence)
            # By way of sys.stderr, which a bar that is on the screen replaces to make room for the line.
            say(sentence)
