"""What training tells those who watch: progress bars, tables, tests."""

from collections.abc import Mapping, Sequence
from typing import Any

Record = dict[str, Any]


class Observer:
    """Hears about training; this base class ignores everything."""

    def resumed(self, history: Sequence[Record]) -> None:
        """Training goes on after the epochs of `history`; comes before `started`."""

    def started(self, epochs: int, done: int, metric: str) -> None:
        """Training begins with `done` of `epochs` epochs behind it."""

    def batch_done(self, epoch: int, batch: int, batches: int, links: int, loss: float) -> None:
        """A batch of `links` training links was learned."""

    def epoch_done(self, record: Mapping[str, Any]) -> None:
        """An epoch ended; `record` is its line in metrics.jsonl."""

    def finished(self) -> None:
        """Training ended, for whatever reason."""
