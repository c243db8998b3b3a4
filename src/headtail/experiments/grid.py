"""A grid of runs: data sets × methods × seeds, resumable, with progress over the whole of it."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as TimeLeft

from headtail.config import Config
from headtail.experiments.data import DataSource, PerData
from headtail.experiments.one_run import TaskCache, run_config, run_key, run_once
from headtail.experiments.results import Identity, RunResult, append_result, identity, read_results
from headtail.experiments.variants import Settings, Variant
from headtail.training.observer import Observer


@dataclass(frozen=True)
class Planned:
    """A run that is to be done."""

    source: DataSource
    variant: Variant
    config: Config

    @property
    def identity(self) -> Identity:
        return (
            self.source.name,
            self.variant.name,
            self.config.training.seed,
            run_key(self.source.name, self.config),
        )


@dataclass(frozen=True)
class Plan:
    """What to run with what settings."""

    sources: Sequence[DataSource]
    variants: Sequence[Variant]
    repeats: int
    preset: str
    given: Settings
    per_data: PerData

    def runs(self) -> list[Planned]:
        """Returns all runs; those of one data set and seed follow each other, since they share a task."""
        runs: list[Planned] = []
        for source in self.sources:
            for seed in range(self.repeats):
                for variant in self.variants:
                    # Heuristics know no chance: one run says it all.
                    if seed == 0 or not without_chance(variant):
                        for_data, for_method = self.per_data.of(source.name, variant.name)
                        config = run_config(variant, self.preset, for_data, {**for_method, **self.given}, seed)
                        runs.append(Planned(source, variant, config))
        return runs


def without_chance(variant: Variant) -> bool:
    """Whether every seed gives the same result."""
    from headtail.baselines.heuristics import HEURISTICS

    return str(variant.settings["method"]) in HEURISTICS


def run_grid(
    plan: Plan, results: Path, console: Console, jobs: int = 1, say: Callable[[str], None] = lambda text: None
) -> list[RunResult]:
    """Does what is not in `results` yet, and returns the results of the whole plan.

    Args:
        plan: what to run.
        results: file of JSON lines; every finished run is added at once.
        console: where progress is shown.
        jobs: processes that work side by side.
        say: hears about broken lines and about what is done already.
    """
    planned = plan.runs()
    wanted = {run.identity for run in planned}
    done = {identity(result): result for result in read_results(results, say)}
    missing = [run for run in planned if run.identity not in done]
    if len(missing) < len(planned):
        say(f"{len(planned) - len(missing)} of {len(planned)} runs are in {results} already.")
    with _progress(console, missing) as watch:
        if jobs > 1 and len(missing) > 1:
            _run_side_by_side(missing, results, jobs, watch)
        else:
            cache, graphs = TaskCache(), _Graphs()
            for run in missing:
                _run(run, results, cache, graphs, watch)
    found = [result for result in read_results(results, say) if identity(result) in wanted]
    return list({identity(result): result for result in found}.values())


class _Graphs:
    """Keeps the newest graph: runs are in the order of their data sets."""

    def __init__(self) -> None:
        self._source: DataSource | None = None
        self._graph: Any = None

    def load(self, source: DataSource) -> Any:
        if source != self._source:
            self._source, self._graph = source, source.load()
        return self._graph


def _run(
    run: Planned, results: Path, cache: TaskCache, graphs: _Graphs, watch: "GridProgress | None", jobs: int = 1
) -> None:
    observer = None if watch is None else watch.observing(run)
    result = run_once(run.source.name, graphs.load(run.source), run.variant, run.config, cache, observer, jobs)
    append_result(results, result)
    if watch is not None:
        watch.run_done(run, result)


def _run_side_by_side(missing: list[Planned], results: Path, jobs: int, watch: "GridProgress") -> None:
    """Gives runs that share a task to the same process."""
    groups: dict[tuple[DataSource, int], list[Planned]] = {}
    for run in missing:
        groups.setdefault((run.source, run.config.training.seed), []).append(run)
    # A group makes its task once; only where processes would stand idle is it cut.
    cuts = -(-jobs // len(groups))
    parts = [part for group in groups.values() for part in _cut(group, cuts)]
    parts.sort(key=lambda part: -sum(_weight(run) for run in part))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(parts)), mp_context=context) as pool:
        futures = {pool.submit(_run_part, part, results, jobs): part for part in parts}
        try:
            for future in as_completed(futures):
                future.result()
                for run in futures[future]:
                    watch.run_done(run, None)
        except BaseException:
            for process in list(pool._processes.values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _cut(runs: list[Planned], parts: int) -> list[list[Planned]]:
    """Deals runs into at most that many lists of about equal length."""
    return [dealt for first in range(parts) if (dealt := runs[first::parts])]


def _run_part(part: list[Planned], results: Path, jobs: int) -> None:
    import torch

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // jobs))
    cache, graphs = TaskCache(), _Graphs()
    for run in part:
        _run(run, results, cache, graphs, None, jobs)


class GridProgress:
    """Shows how much of the grid is done, in epochs, and a line for every finished run."""

    def __init__(self, console: Console, bar: Progress, task: TaskID) -> None:
        self.console, self.bar, self.task = console, bar, task

    def observing(self, run: Planned) -> Observer:
        self.bar.update(self.task, current=f"{run.source.name} {run.variant.name} seed {run.config.training.seed}")
        return _EpochTicks(self)

    def tick(self) -> None:
        self.bar.advance(self.task, 1)

    def run_done(self, run: Planned, result: RunResult | None) -> None:
        if result is None:
            self.bar.advance(self.task, _weight(run))
        elif result.epochs == 0:
            self.bar.advance(self.task, 1)
        name = f"{run.source.name} {run.variant.name} seed {run.config.training.seed}"
        figure = (
            "done" if result is None else f"{result.metric} {100 * result.test:.2f} in {result.train_seconds:.1f} s"
        )
        self.console.print(f"{name}: {figure}", highlight=False)


class _EpochTicks(Observer):
    def __init__(self, watch: GridProgress) -> None:
        self.watch = watch

    def epoch_done(self, record: Mapping[str, Any]) -> None:
        self.watch.tick()


def _weight(run: Planned) -> int:
    """Returns the epochs of a run, at least one."""
    return 1 if without_chance(run.variant) else run.config.training.epochs


@contextmanager
def _progress(console: Console, missing: list[Planned]) -> Iterator[GridProgress]:
    bar = Progress(
        TextColumn("{task.fields[current]}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("epochs"),
        TimeElapsedColumn(),
        TimeLeft(compact=True),
        TextColumn("left"),
        console=console,
        disable=not console.is_terminal,
    )
    task = bar.add_task("grid", total=sum(_weight(run) for run in missing), current=f"{len(missing)} runs")
    with bar:
        yield GridProgress(console, bar, task)
