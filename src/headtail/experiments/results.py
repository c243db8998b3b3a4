"""Results on disk: one JSON line per finished run, so an interruption loses at most the run in progress."""

import json
import math
import os
import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from headtail.errors import DataError
from headtail.files import write_text

BROKEN_SUFFIX = ".broken"


@dataclass(frozen=True)
class RunResult:
    """What one training of one method on one data set with one seed gave.

    Attributes:
        key: a hash of data and settings; a run with the same key, method and seed need not be repeated.
        test, valid: the metric at the best validation epoch, between 0 and 1; -1 where it was not measured.
        train_seconds: epochs of training alone; what preparation (features, messages) took is `prepare_seconds`.
        links: training links per epoch, an undirected one counting twice.
        curve: per validated epoch, seconds of training so far, validation metric, test metric.
        jobs: processes that shared the machine; seconds say little where it is not 1.
    """

    data: str
    method: str
    seed: int
    key: str
    metric: str
    protocol: str
    test_graph: str
    test: float
    valid: float
    best_epoch: int
    epochs: int
    train_seconds: float
    prepare_seconds: float
    evaluation_seconds: float
    links: int
    per_epoch: dict[str, int]
    settings: dict[str, object]
    machine: str
    torch: str
    date: str
    jobs: int = 1
    curve: list[list[float]] = field(default_factory=list)


Identity = tuple[str, str, int, str]


def identity(result: RunResult) -> Identity:
    """Returns what makes a run this run."""
    return result.data, result.method, result.seed, result.key


def append_result(path: Path, result: RunResult) -> None:
    """Adds a line in one write, so that several processes may share the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(asdict(result), ensure_ascii=False) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_results(path: Path, say: Callable[[str], None]) -> list[RunResult]:
    """Returns all complete results of a file; lines that a crash cut short are set aside and named.

    They move to a file of the same name with .broken, so the results stay readable for everyone.
    """
    if not path.exists():
        return []
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise DataError(f"cannot read results {path}: {error.strerror}.") from error
    good: list[tuple[str, RunResult]] = []
    broken: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        result = _parse(line)
        if result is None:
            broken.append((number, line))
        else:
            good.append((line, result))
    if broken:
        aside = path.with_name(path.name + BROKEN_SUFFIX)
        before = aside.read_text(encoding="utf-8") if aside.exists() else ""
        write_text(aside, before + "".join(line + "\n" for _, line in broken))
        write_text(path, "".join(line + "\n" for line, _ in good))
        numbers = ", ".join(str(number) for number, _ in broken)
        say(
            f"{path}: line {numbers} is not a complete result (a crash while writing?) and was moved to {aside}; "
            f"the other {len(good):,} are used."
        )
    elif text and not text.endswith("\n"):
        write_text(path, "".join(line + "\n" for line, _ in good))  # the next line must start on its own
    return [result for _, result in good]


def _parse(line: str) -> RunResult | None:
    names = {f.name for f in fields(RunResult)}
    needed = {f.name for f in fields(RunResult)} - {"jobs", "curve"}
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not needed <= set(content) <= names:
        return None
    result = RunResult(**content)
    numbers = (result.test, result.valid, result.train_seconds)
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        return None
    return result


@dataclass(frozen=True)
class Summary:
    """Several runs of one method on one data set: percentages and seconds."""

    mean: float
    std: float
    runs: int
    seconds: float | None
    valid: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.std:.2f}"


def summarise(results: Iterable[RunResult]) -> Summary | None:
    """Returns mean and sample standard deviation over seeds; None over nothing.

    Seconds are the median over runs that had the machine to themselves, None if there are none.
    """
    runs = list(results)
    if not runs:
        return None
    values = [100 * run.test for run in runs]
    alone = [run.train_seconds for run in runs if run.jobs == 1 and run.epochs > 0]
    return Summary(
        mean=statistics.mean(values),
        std=statistics.stdev(values) if len(values) > 1 else 0.0,
        runs=len(runs),
        seconds=statistics.median(alone) if alone else None,
        valid=100 * statistics.mean(run.valid for run in runs),
    )
