"""A grid does each run once, goes on after interruptions, and gives the same side by side."""

import io
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from grid_case import TINY, plan_of, quiet, tiny_source, write_tiny
from rich.console import Console

from headtail import errors
from headtail.errors import ConfigError, DataError, HeadtailError, TrainingError
from headtail.experiments import grid
from headtail.experiments.data import DataSource
from headtail.experiments.grid import GridProgress, Plan, Planned, deal, run_grid
from headtail.experiments.results import RunResult, identity, read_results
from headtail.experiments.tables import Part, Results, TableSpec, accuracy_table
from headtail.training.observer import Observer
from tiny_runs import Stop, heed_ctrl_c


@pytest.fixture
def source(tmp_path: Path) -> DataSource:
    return tiny_source(tmp_path)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "out" / "results.jsonl"


def refuse(message: str) -> None:
    raise AssertionError(message)


def timeless(found: list[RunResult]) -> dict[object, RunResult]:
    """Returns results by identity, without what a clock or the number of processes says."""
    clock: dict[str, Any] = {"train_seconds": 0.0, "prepare_seconds": 0.0, "evaluation_seconds": 0.0}
    plain = {}
    for run in found:
        curve = [[0.0, *point[1:]] for point in run.curve]
        plain[identity(run)] = replace(run, **clock, jobs=1, machine="", curve=curve)
    return plain


# ---- the plan


def test_runs_are_data_by_seeds_by_methods(tmp_path: Path) -> None:
    sources = [DataSource("one", ""), DataSource("two", "")]
    runs = plan_of(sources, ["aml", "ra", "sage"], repeats=3).runs()
    told = [(run.source.name, run.config.training.seed, run.variant.name) for run in runs]
    assert told == [
        (data, seed, method)
        for data in ("one", "two")
        for seed in range(3)
        for method in ("aml", "ra", "sage")
        if method != "ra" or seed == 0  # a heuristic knows no chance
    ]


def test_two_data_sets_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two data sets are called 'links'"):
        plan_of([DataSource("links", "a/links.csv"), DataSource("links", "b/links.csv")], ["ra"]).runs()


def test_wrong_settings_are_told_before_anything_is_run(results: Path) -> None:
    nowhere = DataSource("nowhere", "/nowhere.npz")
    for given in ({"epochs": 0}, {"encoder": "gatt"}, {"neighbours": "bnss"}):
        with pytest.raises(ConfigError):
            run_grid(plan_of([nowhere], ["aml"], **given), results, quiet())
    assert not results.exists()


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_run(
    source: DataSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "run_once", lambda *arguments, **more: refuse("a run was made"))
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write results"):
        run_grid(plan_of([source], ["ra"]), tmp_path / "file" / "results.jsonl", quiet())


def test_without_training_only_what_is_there_is_returned(source: DataSource, results: Path, counted: list[str]) -> None:
    plan = plan_of([source], ["ra", "cn"])
    assert run_grid(plan, results, quiet(), train=False) == []
    run_grid(plan_of([source], ["ra"]), results, quiet())
    assert [found.method for found in run_grid(plan, results, quiet(), train=False)] == ["ra"]
    assert counted == ["tiny ra 0"]


def test_curves_are_made_only_where_they_are_wanted(source: DataSource, results: Path) -> None:
    plan = plan_of([source], ["aml"])
    (without,) = run_grid(replace(plan, curves=False), results.with_name("without.jsonl"), quiet())
    (found,) = run_grid(plan, results, quiet())
    assert without.curve == []
    assert len(found.curve) == found.epochs
    assert (without.test, without.valid) == (found.test, found.valid)


# ---- resuming


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes every run that is really made."""
    made: list[str] = []
    run_once = grid.run_once

    def noting(source: DataSource, graph: Any, variant: Any, config: Any, *rest: Any, **more: Any) -> RunResult:
        made.append(f"{source.name} {variant.name} {config.training.seed}")
        return run_once(source, graph, variant, config, *rest, **more)

    monkeypatch.setattr(grid, "run_once", noting)
    return made


@pytest.mark.slow
def test_what_is_done_is_not_done_again(source: DataSource, results: Path, counted: list[str]) -> None:
    plan = plan_of([source], ["aml", "ra"], repeats=2)
    first = run_grid(plan, results, quiet())
    assert counted == ["tiny aml 0", "tiny ra 0", "tiny aml 1"]
    counted.clear()
    said: list[str] = []
    assert run_grid(plan, results, quiet(), say=said.append) == first
    assert counted == []
    assert said == [f"3 of 3 runs are in {results} already."]
    more = run_grid(plan_of([source], ["aml", "ra", "sage"], repeats=3), results, quiet())
    assert counted == ["tiny sage 0", "tiny sage 1", "tiny aml 2", "tiny sage 2"]
    assert {identity(run) for run in first} < {identity(run) for run in more}


def test_other_settings_are_other_runs(source: DataSource, results: Path, counted: list[str]) -> None:
    two = run_grid(plan_of([source], ["aml"]), results, quiet())
    three = run_grid(plan_of([source], ["aml"], epochs=3), results, quiet())
    assert (two[0].epochs, three[0].epochs) == (2, 3)
    assert len(counted) == 2
    assert run_grid(plan_of([source], ["aml"]), results, quiet()) == two
    # On which device it is made makes no other run of it.
    assert run_grid(plan_of([source], ["aml"], device="auto"), results, quiet()) == two
    assert len(counted) == 2


@pytest.mark.slow
@pytest.mark.parametrize("stop", [Stop(epoch=1), Stop(epoch=2, batch=1)])
def test_an_interruption_costs_the_run_in_progress(
    source: DataSource, results: Path, counted: list[str], stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of([source], ["aml", "sage", "ra"], repeats=2)
    whole = timeless(run_grid(plan, results.with_name("whole.jsonl"), quiet()))
    observing = GridProgress.observing

    def stopping(watch: GridProgress, run: Planned) -> Observer:
        return stop if run.name == "tiny aml seed 1" else observing(watch, run)

    with monkeypatch.context() as patch:
        patch.setattr(GridProgress, "observing", stopping)
        with pytest.raises(KeyboardInterrupt):
            run_grid(plan, results, quiet())
    kept = read_results(results, refuse)
    assert [(run.method, run.seed) for run in kept] == [("aml", 0), ("sage", 0), ("ra", 0)]
    counted.clear()
    assert timeless(run_grid(plan, results, quiet())) == whole
    assert counted == ["tiny aml 1", "tiny sage 1"]


def test_a_line_cut_by_a_crash_is_made_again(source: DataSource, results: Path, counted: list[str]) -> None:
    plan = plan_of([source], ["aml", "ra"])
    whole = timeless(run_grid(plan, results, quiet()))
    results.write_bytes(results.read_bytes()[:-40])
    counted.clear()
    said: list[str] = []
    assert timeless(run_grid(plan, results, quiet(), say=said.append)) == whole
    assert counted == ["tiny ra 0"]
    assert "line 2 is no complete result" in said[0]
    assert said[1] == f"1 of 2 runs are in {results} already."


def test_every_data_set_is_loaded_once(tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [tiny_source(tmp_path, "one"), tiny_source(tmp_path, "two", valid=10)]
    loaded: list[str] = []
    load = DataSource.load
    monkeypatch.setattr(DataSource, "load", lambda self: loaded.append(self.name) or load(self))
    found = run_grid(plan_of(sources, ["ra", "aml"], repeats=2, epochs=1), results, quiet())
    assert loaded == ["one", "two"]
    assert len({run.links for run in found if run.method == "aml"}) == 2


def test_progress_tells_every_run(source: DataSource, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GridProgress, "__init__", _noting(GridProgress.__init__))
    odd = replace(source, name="[bold]odd[/]")
    console = Console(record=True, width=40, force_terminal=True, file=io.StringIO())
    found = run_grid(plan_of([odd], ["aml", "ra"], epochs=3), results, console)
    text = console.export_text()
    for run in found:
        figure = f"MRR among 15 each {100 * run.test:.2f} in {run.train_seconds:.1f} s"
        assert f"[bold]odd[/] {run.method} seed 0: {figure}" in text
    (bar,) = BARS
    assert [(task.completed, task.total, task.finished) for task in bar.tasks] == [(4, 4, True)]


BARS: list[Any] = []


def _noting(initialise: Any) -> Any:
    def noting(self: GridProgress, console: Console, bar: Any, task: Any) -> None:
        BARS[:] = [bar]
        initialise(self, console, bar, task)

    return noting


# ---- side by side


def test_runs_that_share_a_task_stay_together() -> None:
    sources = [DataSource("one", ""), DataSource("two", "")]
    runs = plan_of(sources, ["aml", "sage", "ra"], repeats=2).runs()
    for jobs in (1, 2, 3, 4, 7, 20):
        parts = deal(runs, jobs)
        assert sorted(place for part in parts for place, _ in part) == list(range(len(runs)))
        assert all(runs[place] is run for part in parts for place, run in part)
        assert all(len({(run.source, run.config.training.seed) for _, run in part}) == 1 for part in parts)
        assert len(parts) >= min(jobs, 10)
        lengths = [sum(grid.weight(run) for _, run in part) for part in parts]
        assert lengths == sorted(lengths, reverse=True)
    assert len(deal(runs, 4)) == 4


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan, list[RunResult], list[RunResult], str]:
    """A grid one by one and the same by two processes, with what was told."""
    folder = tmp_path_factory.mktemp("both")
    plan = plan_of([tiny_source(folder)], ["aml", "sage", "mf", "ra"])
    threads = torch.get_num_threads()
    # As many as each of two processes gets: sums are rounded otherwise on another number.
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
    alone = run_grid(plan, folder / "alone.jsonl", quiet())
    torch.set_num_threads(threads)
    console = Console(record=True, width=200, file=io.StringIO())
    together = run_grid(plan, folder / "together.jsonl", console, jobs=2)
    return folder, plan, alone, together, console.export_text()


Both = tuple[Path, Plan, list[RunResult], list[RunResult], str]


@pytest.mark.slow
def test_two_processes_give_what_one_gives(both: Both) -> None:
    _, _, alone, together, told = both
    assert timeless(alone) == timeless(together)
    assert {run.jobs for run in alone} == {1}
    assert {run.jobs for run in together} == {2}
    for run in together:
        assert f"tiny {run.method} seed 0: MRR among 15 each {100 * run.test:.2f} in" in told
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_runs_that_shared_the_machine_have_no_time(both: Both) -> None:
    _, _, alone, together, _ = both
    spec = TableSpec("t", "t", (Part("", ("aml", "sage")),), time=True)
    for found, empty in ((alone, False), (together, True)):
        rows = accuracy_table(spec, ["tiny"], Results(found)).splitlines()[2:]
        assert [row.split("|")[3].strip() == "–" for row in rows] == [empty, empty]


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HeadtailError)]
)
def test_errors_cross_from_process_to_process(kind: type[HeadtailError]) -> None:
    back = pickle.loads(pickle.dumps(kind("what, where, what to do")))
    assert type(back) is kind
    assert str(back) == "what, where, what to do"


@pytest.mark.slow
def test_an_error_of_a_process_is_told_as_it_is(source: DataSource, tmp_path: Path, results: Path) -> None:
    plan = plan_of([DataSource("gone", str(tmp_path / "gone.npz"))], ["aml", "ra"])
    with pytest.raises(DataError, match=r"there is no file .*gone.npz"):
        run_grid(plan, results, quiet(), jobs=2)
    assert multiprocessing.active_children() == []


# ---- processes that are killed

SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from grid_case import plan_of, quiet
from headtail.experiments.data import DataSource
from headtail.experiments.grid import run_grid
if __name__ == "__main__":
    plan = plan_of([DataSource("tiny", sys.argv[3])], ["ra", "cn", "aml", "sage"], epochs=100_000)
    run_grid(plan, Path(sys.argv[4]), quiet(), jobs=2)
"""


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """A grid that never ends, in a process group of its own, after its first results."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    folder = Path(__file__).parent
    place, results = write_tiny(tmp_path / "tiny.npz"), tmp_path / "results.jsonl"
    command = [sys.executable, str(script), str(folder), str(folder.parent), str(place), str(results)]
    process = subprocess.Popen(
        command, start_new_session=True, stderr=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c
    )
    wait_for(lambda: results.exists() and results.read_bytes().count(b"\n") == 2)
    yield process, results
    if alive(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def alive(group: int) -> bool:
    """Whether a process of the group still runs."""
    states = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    return any(line.split()[0] == str(group) and "Z" not in line.split()[1] for line in states.splitlines())


def wait_for(condition: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "took too long"
        time.sleep(0.1)


@pytest.mark.slow
def test_ctrl_c_ends_every_process_without_a_word(endless: tuple["subprocess.Popen[str]", Path]) -> None:
    process, results = endless
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert told.count("Traceback") <= 1, told  # this script's own, which does not catch it
    assert told.rstrip().endswith("KeyboardInterrupt")
    wait_for(lambda: not alive(process.pid))
    assert sorted(run.method for run in read_results(results, refuse)) == ["cn", "ra"]


@pytest.mark.slow
def test_no_process_outlives_the_first(endless: tuple["subprocess.Popen[str]", Path]) -> None:
    process, _ = endless
    process.kill()
    process.wait(60)
    wait_for(lambda: not alive(process.pid))


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, -1], ids=["first", "last"])
def test_a_process_that_dies_is_told(source: DataSource, results: Path, which: int) -> None:
    plan = plan_of([source], ["ra", "aml", "sage"], **(TINY | {"epochs": 100_000}))
    finished = grid.side_by_side(plan.runs(), results, jobs=2)
    assert next(finished)[0].variant.name == "ra"
    started = sorted(process.pid or 0 for process in multiprocessing.active_children())
    os.kill(started[which], signal.SIGKILL)
    with pytest.raises(TrainingError, match=r"one of 2 processes died.*fewer --jobs"):
        next(finished)
    assert multiprocessing.active_children() == []
