"""Results on disk: one JSON line per finished run, so an interruption loses at most the run in progress."""

import errno
import json
import os
import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from headtail.errors import DataError
from headtail.files import replacing

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
        negatives: how many a link is ranked among, of its own or shared, as the metric says; older lines lack it.
        heads_sampled: of so many heads at most, `all_nodes` tells what their lists are worth, as fractions; 0 is
            none, and without a number (null) it is the default, fewer where a head is dear.
    """

    # A line that is read back must have these fields and types, no others.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

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
    negatives: int | None = None
    heads_sampled: int | None = 0
    all_nodes: dict[str, float] | None = None


_LINES = TypeAdapter(RunResult)
Identity = tuple[str, str, int, str]


def identity(result: RunResult) -> Identity:
    """Returns what makes a run this run."""
    return result.data, result.method, result.seed, result.key


def make_ready(path: Path) -> None:
    """Creates the file and its folder, so that one that cannot be written is told before the first run, not after.

    Raises:
        DataError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
    except OSError as error:
        raise _unwritable(path, error) from error


def append_result(path: Path, result: RunResult) -> None:
    """Adds a line in one write, so that several processes may share the file.

    Raises:
        DataError: the line could not be written whole.
    """
    make_ready(path)
    line = json.dumps(asdict(result), ensure_ascii=False).encode() + b"\n"
    try:
        with path.open("ab+", buffering=0) as file:
            if not _ends_a_line(file):
                line = b"\n" + line  # what a crash cut short stays a line of its own
            written = file.write(line)
            if written != len(line):
                _take_back(file, written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(path, error) from error


def _take_back(file: FileIO, written: int) -> None:
    """Removes the part of a line that still fitted on the disk, unless another process wrote behind it."""
    end = file.tell()
    if end == file.seek(0, os.SEEK_END):
        file.truncate(end - written)


def _ends_a_line(file: FileIO) -> bool:
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        return True
    file.seek(size - 1)
    return file.read(1) == b"\n"


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(
        f"cannot write results to {path}: {error.strerror}; finished runs before this one are kept, choose "
        "another folder (--out) or free some space, and run the same command again."
    )


def read_results(path: Path, say: Callable[[str], None]) -> list[RunResult]:
    """Returns all complete results of a file; lines that a crash cut short are set aside and named.

    They move to a file of the same name with .broken, so the results stay readable for everyone.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"cannot read results {path}: {error.strerror}.") from error
    good: list[tuple[bytes, RunResult]] = []
    broken: dict[int, bytes] = {}
    # Bytes and b"\n": text would also be cut at line separators that a name may hold.
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            result = _parse(line)
            if result is None:
                broken[number] = line
            else:
                good.append((line, result))
    if broken:
        aside = path.with_name(path.name + BROKEN_SUFFIX)
        before = aside.read_bytes() if aside.exists() else b""
        write_bytes(aside, before + b"".join(line + b"\n" for line in broken.values()))
        write_bytes(path, b"".join(line + b"\n" for line, _ in good))
        many = len(broken) > 1
        numbers = ", ".join(str(number) for number in broken)
        say(
            f"{path}: {'lines' if many else 'line'} {numbers} {'are' if many else 'is'} no complete result "
            f"(a crash while writing?) and moved to {aside}; the other {len(good):,} are used."
        )
    return [result for _, result in good]


def write_bytes(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _parse(line: bytes) -> RunResult | None:
    """Returns the result in a line; None where it is none, or one with other fields or types."""
    try:
        return _LINES.validate_json(line)
    except ValidationError:
        return None


@dataclass(frozen=True)
class Summary:
    """Several runs of one method on one data set: percentages and seconds; None where nothing was measured."""

    mean: float
    std: float
    runs: int
    seconds: float | None
    valid: float | None

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
        valid=100 * statistics.mean(run.valid for run in runs) if all(run.valid >= 0 for run in runs) else None,
    )
