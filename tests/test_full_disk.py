"""A disk that is full, truly: every file that is written then stays as it was, and the user is told."""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from headtail import LinkPredictor
from headtail.cli import main
from headtail.config import make_config
from headtail.datasets.npz import write_npz
from headtail.datasets.synthetic import planted
from headtail.errors import HeadtailError
from headtail.experiments.phases import write_trace
from headtail.experiments.plots import Curve, accuracy_time_plot
from headtail.experiments.results import RunResult, append_result, read_results
from headtail.files import write_mapped, write_tensors, write_text
from headtail.graph.store import save_task
from headtail.graph.task import make_task
from headtail.runs import write_history
from headtail.serving.tables import write_table
from headtail.training.checkpoint import save_model
from headtail.training.observer import Observer
from headtail.training.trainer import GnnMethod
from tiny_runs import predictor, small_graph

LEFT_BYTES, DISK_BYTES = 12 << 10, 2 << 20


@dataclass
class Disk:
    """A folder on a disk that can be made full."""

    folder: Path
    mounted: bool

    @contextmanager
    def full(self) -> Iterator[None]:
        """Leaves room for no more than a few kilobytes: of all files together, or where a disk of our own is not
        permitted, of any one file."""
        if not self.mounted:
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (LEFT_BYTES, before[1]))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
            return
        filler = self.folder / "filler"
        filler.write_bytes(bytes(self._free() - LEFT_BYTES))
        try:
            yield
        finally:
            filler.unlink()

    def _free(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()
        }


@pytest.fixture(params=["tmpfs", "limit"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A disk of two megabytes, or a limit on the size of files where mounting is not permitted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if request.param == "limit":
        yield Disk(folder, mounted=False)
        return
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small disk is not permitted here")
    try:
        yield Disk(folder, mounted=True)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # the profiler keeps a file open


def _frame(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(rows)
    return pd.DataFrame({"head": rng.integers(10**9, size=rows), "tail": rng.integers(10**9, size=rows)})


def _png(path: Path, points: int) -> None:
    values = np.random.default_rng(0).random(points)
    accuracy_time_plot([Curve("a", values, values)], "mrr", "title", path)


# Writes something small, then something that does not fit.
WRITERS: dict[str, Callable[[Path, int], object]] = {
    "checkpoint.safetensors": lambda path, size: write_tensors(path, {"a": torch.randn(size * 1000)}, {}),
    "answers.safetensors": lambda path, size: write_mapped(path, {"a": torch.randn(size * 1000)}, {}),
    "config.yaml": lambda path, size: write_text(path, "x" * size * 1000),
    "metrics.jsonl": lambda path, size: write_history(path.parent, [{"epoch": 1, "loss": 0.5}] * size * 100),
    "links.parquet": lambda path, size: write_table([_frame(size * 100)], path),
    "links.csv": lambda path, size: write_table([_frame(size * 100)], path),
    "split.npz": lambda path, size: write_npz(planted(size * 50 + 100, degree=4.0, seed=size), path),
    "curve.png": _png,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_told_and_the_old_file_stays(disk: Disk, name: str) -> None:
    path = disk.folder / name
    WRITERS[name](path, 1)
    before = disk.files()
    with disk.full():
        with pytest.raises(HeadtailError, match="cannot write") as caught:
            WRITERS[name](path, 60)
        left = {name: content for name, content in disk.files().items() if name != "filler"}
    assert str(path) in str(caught.value)
    assert "is unchanged" in str(caught.value)
    assert ("the disk is full" in str(caught.value)) is disk.mounted
    assert left == before
    WRITERS[name](path, 60)
    assert path.stat().st_size > LEFT_BYTES


def test_a_graph_that_does_not_fit_leaves_the_old_one(disk: Disk) -> None:
    config = make_config("fast", settings={"structure": 8, "eval_negatives": 20})
    save_task(make_task(small_graph(), config), disk.folder)
    before = disk.files()
    with disk.full(), pytest.raises(HeadtailError, match=r"graph\.safetensors"):
        save_task(make_task(small_graph(seed=1), config), disk.folder)
    assert disk.files() == before


def _result(data: str) -> RunResult:
    values = {"str": data, "int": 1, "float": 0.5, "dict": {}, "list": [], "int | None": 1, "NoneType": None}
    kinds = {field.name: str(getattr(field.type, "__name__", field.type)).split("[")[0] for field in fields(RunResult)}
    return RunResult(**{name: values[kind] for name, kind in kinds.items()})


def test_a_result_that_does_not_fit_leaves_no_half_of_a_line(disk: Disk) -> None:
    path = disk.folder / "results.jsonl"
    append_result(path, _result("first"))
    before = path.read_bytes()
    with disk.full(), pytest.raises(HeadtailError, match="finished runs before this one are kept"):
        append_result(path, _result("x" * 100_000))
    assert path.read_bytes() == before
    append_result(path, _result("second"))
    assert [result.data for result in read_results(path, pytest.fail)] == ["first", "second"]


@pytest.mark.slow
def test_training_goes_on_once_there_is_room(disk: Disk) -> None:
    class Fill(Observer):
        def epoch_done(self, record: object) -> None:
            if int(dict(record)["epoch"]) == 2:  # type: ignore[call-overload]
                stack.enter_context(disk.full())

    run, graph = disk.folder / "run", small_graph()
    with ExitStack() as stack, pytest.raises(HeadtailError, match="checkpoint"):
        predictor(epochs=4, hidden=32).fit(graph, run, observer=Fill())
    assert [name for name in disk.files() if "tmp" in name or "new" in name] == []
    resumed = predictor(epochs=4, hidden=32).fit(graph, run, resume=True, observer=Observer())
    whole = predictor(epochs=4, hidden=32).fit(graph, observer=Observer())
    assert [record["loss"] for record in resumed.history] == [record["loss"] for record in whole.history]
    assert LinkPredictor.load(run, "cpu").finished


@pytest.mark.slow
def test_a_run_whose_answers_do_not_fit_answers_all_the_same(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    run, graph = disk.folder / "run", small_graph()
    with ExitStack() as stack:

        def saved(*given: Any) -> None:
            save_model(*given)
            stack.enter_context(disk.full())

        monkeypatch.setattr("headtail.predictor.save_model", saved)
        with pytest.raises(HeadtailError, match=r"cannot write .*answers\.json"):
            predictor(epochs=1, answers="chosen").fit(graph, run, observer=Observer())
    monkeypatch.undo()
    assert not any("answers" in name for name in disk.files())
    wanted = predictor(epochs=1, answers="chosen").fit(graph, observer=Observer()).recommend(k=3)
    assert LinkPredictor.load(run, "cpu").recommend(k=3).equals(wanted)
    resumed = predictor(epochs=1, answers="chosen").fit(graph, run, resume=True, observer=Observer())
    assert resumed.recommend(k=3).equals(wanted)
    assert "run/answers.json" in disk.files()


@pytest.mark.slow
def test_commands_tell_it_in_one_line(disk: Disk, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = tmp_path / "run", disk.folder / "out.csv"
    predictor(epochs=1).fit(small_graph(), run, observer=Observer())
    out.write_text("old")
    with disk.full():
        assert main(["recommend", str(run), "--out", str(out), "-k", "50", "--device", "cpu"]) == 2
        assert main(["data", "split", "planted", "--out", str(disk.folder / "s.npz")]) == 2
        assert main(["train", "planted", "--out", str(disk.folder / "run"), "--epochs", "1", "--device", "cpu"]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 3
    assert all("cannot write" in line for line in lines)
    assert {path.name: path.read_text() for path in disk.folder.iterdir()} == {"out.csv": "old"}


@pytest.mark.slow
def test_a_profile_that_does_not_fit_is_told(disk: Disk) -> None:
    method = predictor(epochs=1).fit(small_graph(), observer=Observer()).method
    assert isinstance(method, GnnMethod)
    path = disk.folder / "trace.json"

    def write() -> None:
        drawn = (batch for _ in range(20) for batch in method.batches().epoch(torch.Generator().manual_seed(0)))
        write_trace(method, drawn, method.optimizer(), path)

    path.write_text("old")
    with disk.full(), pytest.raises(HeadtailError, match="cannot write"):
        write()
    assert disk.files() == {"trace.json": b"old"}
