"""A live progress bar of training for terminals, and a line per epoch where there is none."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from headtail.training.observer import Observer


class ProgressBar(Observer):
    """Shows epoch, loss, validation metric, links per second and time left."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.metric = self.label = ""
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=24),
            TextColumn("loss {task.fields[loss]}  valid {task.fields[valid]}  {task.fields[speed]} links/s"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            disable=not console.is_terminal,
            transient=False,
        )

    def started(self, epochs: int, done: int, metric: str) -> None:
        self.metric, self.epochs = metric, epochs
        # Hits@K as the metric is not the Hits@K that is reported beside MRR, among negatives of each link's own.
        self.label = f"{metric} against pairs" if metric.startswith("hits@") else metric
        self.bar.start()
        self.task = self.bar.add_task(
            "train", total=epochs, completed=done, epoch=f"{done}/{epochs}", loss="–", valid="–", speed="–"
        )

    def batch_done(self, epoch: int, batch: int, batches: int, links: int, loss: float) -> None:
        self.bar.update(
            self.task,
            completed=epoch - 1 + batch / batches,
            epoch=f"{epoch}/{self.epochs}",
            loss=f"{loss:.4f}",
        )

    def epoch_done(self, record: Mapping[str, Any]) -> None:
        speed = f"{record['links_per_second']:,.0f}"
        value = record.get(f"valid_{self.metric}")
        valid = "" if value is None else f"{self.label} {100 * value:.2f}"
        self.bar.update(self.task, completed=record["epoch"], loss=f"{record['loss']:.4f}", speed=speed)
        if valid:
            self.bar.update(self.task, valid=valid)
        if not self.console.is_terminal:
            self.console.print(
                f"epoch {record['epoch']}/{self.epochs}  loss {record['loss']:.4f}  "
                f"valid {valid or '–'}  {speed} links/s"
            )

    def finished(self) -> None:
        self.bar.stop()
