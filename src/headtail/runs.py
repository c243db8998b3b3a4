"""Run folders: what lies in them, when they may be written, and the journal of an ongoing training."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from headtail.config import Config
from headtail.errors import HeadtailError, RunError
from headtail.files import leftovers, write_text
from headtail.graph.store import GRAPH_FILE, NODES_FILE, fingerprint, save_task
from headtail.graph.task import LinkTask
from headtail.ranks import current
from headtail.training.checkpoint import CHECKPOINT_FILE, MODEL_FILE, CheckpointStore, checked_history
from headtail.training.observer import Observer, Record
from headtail.training.progress import ProgressBar

CONFIG_FILE, METRICS_FILE, CARD_FILE = "config.yaml", "metrics.jsonl", "README.md"
# How the run answers: candidates, trees, and what was chosen on the validation links.
ANSWERS_FILE = "answers.json"
# What takes long to make for answers.
TABLES_FILE = "answers.safetensors"
RUN_FILES = (
    *(CONFIG_FILE, METRICS_FILE, CARD_FILE, GRAPH_FILE, NODES_FILE, CHECKPOINT_FILE, MODEL_FILE),
    *(ANSWERS_FILE, TABLES_FILE),
)


def check_folder(folder: Path | None, resume: bool, overwrite: bool) -> bool:
    """Refuses to write over something that is not asked to be replaced; returns whether there is a run to go on with.

    A run that was killed before its first epoch ended has nothing to lose: it may begin again, also without `resume`.
    """
    if folder is None:
        if resume:
            raise HeadtailError("resume needs the run folder to go on from (out, --out).")
        return False
    if folder.exists() and not folder.is_dir():
        raise HeadtailError(f"{folder} is a file; a run needs a folder.")
    begun, trained = ((folder / name).is_file() for name in (CONFIG_FILE, CHECKPOINT_FILE))
    learned = trained or (folder / MODEL_FILE).is_file()
    if resume and not trained and (learned or not begun):
        raise RunError(f"{folder} has no checkpoint to resume from; train without --resume.")
    if resume:
        refuse_ways_out(folder)
    if not resume and begun and learned and not overwrite:
        raise HeadtailError(
            f"{folder} already holds a run; go on with --resume, replace it with --overwrite, or choose another --out."
        )
    return resume and trained


def portable_settings(config: Config) -> str:
    """Returns the settings that decide a run's numbers; where it is computed is none of them, a run may move."""
    training = config.training.model_copy(update={"device": "auto", "features_on": "auto"})
    return config.model_copy(update={"training": training}).to_yaml()


def refuse_ways_out(folder: Path) -> None:
    """Refuses files of a run that are links to somewhere else.

    Raises:
        RunError: one is.
    """
    home = folder.resolve()
    for name in RUN_FILES:
        path = folder / name
        if path.is_symlink() and path.resolve().parent != home:
            raise RunError(f"{path} is a link that leads out of the run folder; put the file itself there.")


@contextmanager
def new_run(folder: Path, config: Config, task: LinkTask) -> Iterator[Path]:
    """Yields a folder with configuration and task of a new run, which becomes `folder` when the block ends well.

    An older run there goes only then, so a full disk costs neither.
    """
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    for left in leftovers(folder, ".new"):
        shutil.rmtree(left, ignore_errors=True)
    try:
        write_text(fresh / CONFIG_FILE, config.to_yaml())
        save_task(task, fresh)
        yield fresh
        folder.mkdir(parents=True, exist_ok=True)
        for name in RUN_FILES:
            (folder / name).unlink(missing_ok=True)
        for path in fresh.iterdir():
            path.replace(folder / path.name)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def begin_run(folder: Path | None, config: Config, task: LinkTask, resume: bool) -> CheckpointStore | None:
    """Makes sure that all ranks are at the same task, and writes it down where a run begins.

    Returns:
        Where the checkpoints of the run are; None without a folder.
    """
    ranks, settings = current(), portable_settings(config)
    if ranks.several:
        ranks.agree("the configuration", settings)
        ranks.agree("the graph", fingerprint(task))
        ranks.agree("whether the run has a checkpoint", str(resume))
    if folder is None:
        return None
    if ranks.leads and not resume:
        with new_run(folder, config, task):
            pass  # the model follows when it is trained
    return CheckpointStore(folder, fingerprint(task), settings)


def watching(observer: Observer | None, folder: Path | None) -> Observer:
    """Returns what hears of training: a progress bar by default, and the journal; on ranks that follow, nobody."""
    if not current().leads:
        return Observer()
    observer = observer or ProgressBar(Console(stderr=True))
    return observer if folder is None else Journal(observer, folder)


class Journal(Observer):
    """Passes everything on, and keeps metrics.jsonl up to date after every epoch."""

    def __init__(self, inner: Observer, folder: Path) -> None:
        self.inner, self.folder = inner, folder
        self.records: list[Record] = []

    def resumed(self, history: Sequence[Record]) -> None:
        self.records = list(history)
        self.inner.resumed(history)

    def started(self, epochs: int, done: int, metric: str) -> None:
        self.inner.started(epochs, done, metric)

    def batch_done(self, epoch: int, batch: int, batches: int, links: int, loss: float) -> None:
        self.inner.batch_done(epoch, batch, batches, links, loss)

    def epoch_done(self, record: Mapping[str, Any]) -> None:
        self.records.append(dict(record))
        write_history(self.folder, self.records)
        self.inner.epoch_done(record)

    def finished(self) -> None:
        self.inner.finished()


def write_history(folder: Path, history: list[Record], result: Record | None = None) -> None:
    """Writes metrics.jsonl: a line per epoch, then the test result."""
    lines = [*history, *([] if result is None else [result])]
    write_text(folder / METRICS_FILE, "".join(json.dumps(line) + "\n" for line in lines))


def read_history(folder: Path) -> list[Record]:
    """Returns the epochs of metrics.jsonl."""
    path = folder / METRICS_FILE
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if not all(isinstance(line, dict) for line in lines):
            raise ValueError("a line holds no mapping")
        return checked_history([line for line in lines if "loss" in line])
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} is missing or damaged ({error}); restore it from a copy, or train again.") from error
