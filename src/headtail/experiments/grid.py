"""A grid of runs: data sets × methods × seeds, resumable, with progress over the whole of it."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as TimeLeft

from headtail.config import Config
from headtail.errors import ConfigError, TrainingError
from headtail.evaluation.figures import metric_text
from headtail.experiments.data import DataSource, PerData
from headtail.experiments.one_run import TaskCache, run_config, run_key, run_once
from headtail.experiments.results import Identity, RunResult, append_result, identity, make_ready, read_results
from headtail.experiments.variants import Settings, Variant
from headtail.training.observer import Observer


@dataclass(frozen=True)
class Planned:
    """A run that is to be done."""

    source: DataSource
    variant: Variant
    config: Config
    curves: bool = True
    heads_sampled: int | None = 0

    @property
    def name(self) -> str:
        return f"{self.source.name} {self.variant.name} seed {self.config.training.seed}"

    @property
    def identity(self) -> Identity:
        return (
            self.source.name,
            self.variant.name,
            self.config.training.seed,
            run_key(self.source, self.config),
        )

    def done_in(self, result: RunResult | None) -> bool:
        """Whether a result of this identity, if there is one, holds all that is wanted."""
        return result is not None and (self.heads_sampled == 0 or self.heads_sampled == result.heads_sampled)


@dataclass(frozen=True)
class Plan:
    """What to run with what settings."""

    sources: Sequence[DataSource]
    variants: Sequence[Variant]
    repeats: int
    preset: str
    given: Settings
    per_data: PerData
    # whether the test accuracy of every epoch is wanted, which costs an evaluation each
    curves: bool = True
    # of how many heads lists are judged; None is the default, fewer where a head is dear, 0 is none
    heads_sampled: int | None = 0

    def runs(self) -> list[Planned]:
        """Returns all runs; those of one data set and seed follow each other, since they share a task.

        Raises:
            ConfigError: settings that mean nothing, or two data sets of one name.
        """
        names = [source.name for source in self.sources]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"two data sets are called {name!r}, so their results would mix; rename a file.")
        runs: list[Planned] = []
        for source in self.sources:
            for seed in range(self.repeats):
                for variant in self.variants:
                    # Heuristics know no chance: one run says it all.
                    if seed == 0 or not without_chance(variant):
                        for_data, for_method = self.per_data.of(source.name, variant.name, self.preset)
                        config = run_config(variant, self.preset, for_data, {**for_method, **self.given}, seed)
                        runs.append(Planned(source, variant, config, self.curves, self.heads_sampled))
        return runs


def without_chance(variant: Variant) -> bool:
    """Whether every seed gives the same result."""
    from headtail.baselines.heuristics import HEURISTICS

    return str(variant.settings["method"]) in HEURISTICS


def run_grid(
    plan: Plan,
    results: Path,
    console: Console,
    jobs: int = 1,
    say: Callable[[str], None] = lambda text: None,
    train: bool = True,
) -> list[RunResult]:
    """Does what is not in `results` yet, and returns the results of the whole plan.

    Args:
        plan: what to run.
        results: file of JSON lines; every finished run is added at once.
        console: where progress is shown.
        jobs: processes that work side by side.
        say: hears about broken lines and about what is done already.
        train: False returns what is there.
    """
    planned = plan.runs()
    make_ready(results)
    wanted = {run.identity for run in planned}
    done = {identity(result): result for result in read_results(results, say)}
    missing = [run for run in planned if train and not run.done_in(done.get(run.identity))]
    if train and len(missing) < len(planned):
        say(f"{len(planned) - len(missing)} of {len(planned)} runs are in {results} already.")
    with _progress(console, missing) as watch:
        if jobs > 1 and len(missing) > 1:
            with closing(side_by_side(missing, results, jobs)) as finished:
                for run, result in finished:
                    watch.advance(weight(run))
                    watch.run_done(run, result)
        else:
            for run, result in do_runs(missing, results, watch=watch):
                watch.advance(0 if result.epochs else 1)  # epochs were heard of one by one
                watch.run_done(run, result)
    found = [result for result in read_results(results, say) if identity(result) in wanted]
    return list({identity(result): result for result in found}.values())


def do_runs(
    runs: Sequence[Planned], results: Path, jobs: int = 1, watch: "GridProgress | None" = None
) -> Iterator[tuple[Planned, RunResult]]:
    """Does runs one after the other, writes each result, and yields it."""
    cache = TaskCache()
    source, graph = None, None
    for run in runs:
        if graph is None or run.source != source:  # runs are in the order of their data sets
            source, graph = run.source, run.source.load()
        observer = None if watch is None else watch.observing(run)
        result = run_once(
            run.source,
            graph,
            run.variant,
            run.config,
            cache,
            observer,
            jobs,
            curves=run.curves,
            heads_sampled=run.heads_sampled,
        )
        append_result(results, result)
        yield run, result


def side_by_side(runs: Sequence[Planned], results: Path, jobs: int) -> Generator[tuple[Planned, RunResult], None, None]:
    """Does runs in several processes, and yields each (without its curve) when it is done.

    No process outlives the generator, however it ends.

    Raises:
        TrainingError: a process died.
    """
    parts = deal(runs, jobs)
    processes = min(jobs, len(parts))
    context = multiprocessing.get_context("spawn")
    finished: Finished = context.SimpleQueue()
    with ProcessPoolExecutor(processes, context, _start_worker, (finished, processes)) as pool:
        try:
            working = {pool.submit(_run_part, part, results, processes) for part in parts}
            while working:
                ended, working = wait(working, timeout=0.2)
                while not finished.empty():
                    place, result = finished.get()
                    yield runs[place], result
                for future in ended:
                    future.result()
                # The pool does not watch the process that it started last: without this, nobody would notice its end.
                if any(process.exitcode is not None for process in list(pool._processes.values())):
                    raise BrokenProcessPool
        except BaseException as error:
            for process in list(pool._processes.values()):
                process.terminate()
            if isinstance(error, BrokenProcessPool):
                raise TrainingError(
                    f"one of {processes} processes died, perhaps for want of memory; finished runs are in {results}, "
                    "run the same command with fewer --jobs to go on."
                ) from error
            raise


# a run that knows its place in the grid
Placed = tuple[int, Planned]


def deal(runs: Sequence[Planned], jobs: int) -> list[list[Placed]]:
    """Deals runs to processes, the longest lists first; runs that share a task go to the same process."""
    groups: dict[tuple[DataSource, int], list[Placed]] = {}
    for place, run in enumerate(runs):
        groups.setdefault((run.source, run.config.training.seed), []).append((place, run))
    # A group makes its task once; only where processes would stand idle is it cut.
    cuts = -(-jobs // len(groups))
    parts = [part for group in groups.values() for first in range(cuts) if (part := group[first::cuts])]
    return sorted(parts, key=lambda part: -sum(weight(run) for _, run in part))


class Finished(Protocol):
    """The queue through which processes tell of finished runs: their place in the grid, and the result."""

    def empty(self) -> bool: ...
    def get(self) -> tuple[int, RunResult]: ...
    def put(self, item: tuple[int, RunResult]) -> None: ...


_finished: Finished  # of this process, where it is one of several


def _start_worker(finished: Finished, processes: int) -> None:
    import torch

    global _finished
    _finished = finished
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the first process's to answer
    Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // processes))


def _end_with_parent() -> None:
    """Waits for the first process to end, perhaps killed, and ends this one too."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_part(part: list[Placed], results: Path, processes: int) -> None:
    done = do_runs([run for _, run in part], results, processes)
    for (place, _), (_, result) in zip(part, done, strict=True):
        _finished.put((place, replace(result, curve=[])))


class GridProgress:
    """Shows how much of the grid is done, in epochs, and a line for every finished run."""

    def __init__(self, console: Console, bar: Progress, task: TaskID) -> None:
        self.console, self.bar, self.task = console, bar, task

    def observing(self, run: Planned) -> Observer:
        self.bar.update(self.task, current=run.name)
        return _EpochTicks(self)

    def advance(self, epochs: int) -> None:
        self.bar.advance(self.task, epochs)

    def run_done(self, run: Planned, result: RunResult) -> None:
        figure = (
            f"{metric_text(result.metric, result.negatives)} {100 * result.test:.2f} in {result.train_seconds:.1f} s"
        )
        self.console.print(f"{run.name}: {figure}", highlight=False, markup=False, soft_wrap=True)


class _EpochTicks(Observer):
    def __init__(self, watch: GridProgress) -> None:
        self.watch = watch

    def epoch_done(self, record: Mapping[str, Any]) -> None:
        self.watch.advance(1)


def weight(run: Planned) -> int:
    """Returns the epochs of a run, at least one."""
    return 1 if without_chance(run.variant) else run.config.training.epochs


@contextmanager
def _progress(console: Console, missing: list[Planned]) -> Iterator[GridProgress]:
    bar = Progress(
        TextColumn("{task.fields[current]}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("epochs"),
        TimeElapsedColumn(),
        TimeLeft(compact=True),
        TextColumn("left"),
        console=console,
        disable=not console.is_terminal,
        speed_estimate_period=3600,  # a run may take long to say that it is done
    )
    task = bar.add_task("grid", total=sum(weight(run) for run in missing), current=f"{len(missing)} runs")
    with bar:
        yield GridProgress(console, bar, task)
