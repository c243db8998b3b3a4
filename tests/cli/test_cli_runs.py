"""Run folders under stress: resume, Ctrl-C, damage, other graphs, full disks."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_case import SMALL, Cli, community_links, write_links
from safetensors import SafetensorError

from headtail import files
from headtail.training.trainer import GnnMethod
from tiny_runs import heed_ctrl_c


@pytest.fixture
def run_copy(run_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_folder, tmp_path / "copy"))


def interrupt_in_epoch(epoch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Presses Ctrl-C when that epoch starts."""
    train_epoch = GnnMethod._train_epoch

    def interrupted(self: GnnMethod, number: int, *rest: object) -> object:
        if number == epoch:
            raise KeyboardInterrupt
        return train_epoch(self, number, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(GnnMethod, "_train_epoch", interrupted)


def test_a_run_is_not_replaced_by_accident(cli: Cli, links_csv: Path, run_copy: Path) -> None:
    model = (run_copy / "model.safetensors").read_bytes()
    answer = cli("train", links_csv, "--out", run_copy, *SMALL)
    assert (answer.code, "--overwrite" in answer.err) == (2, True)
    assert (run_copy / "model.safetensors").read_bytes() == model
    assert cli("train", links_csv, "--out", run_copy, *SMALL, "--seed", "1", "--overwrite").code == 0
    assert (run_copy / "model.safetensors").read_bytes() != model


@pytest.mark.slow
def test_interrupt_saves_the_best_so_far_and_resume_ends_like_no_interruption(
    cli: Cli, links_csv: Path, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        interrupt_in_epoch(2, patch)
        stopped = cli("train", links_csv, "--out", out, *SMALL, "--json")
    assert stopped.code == 130
    assert (stopped.json["finished"], stopped.json["epochs"]) == (False, 1)
    assert "interrupted after epoch 1" in stopped.err
    assert "Go on with the same command and --resume" in stopped.err
    assert cli("evaluate", out).code == 0
    # No settings are repeated: a run goes on with its own.
    resumed = cli("train", links_csv, "--out", out, "--resume", "--json")
    assert (resumed.code, resumed.json["finished"], resumed.json["epochs"]) == (0, True, 2)
    whole = cli("evaluate", run_folder, "--json").json
    assert resumed.json["mrr"] == whole["mrr"]
    assert (out / "model.safetensors").read_bytes() == (run_folder / "model.safetensors").read_bytes()


def test_interrupt_in_the_first_epoch_leaves_nothing(
    cli: Cli, links_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_in_epoch(1, monkeypatch)
    answer = cli("train", links_csv, "--out", tmp_path / "run", *SMALL)
    assert answer.code == 130
    assert "nothing was learned" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_a_real_ctrl_c(links_csv: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "headtail", "train", str(links_csv), "--out", str(out), "--json"]
    small = [*SMALL, "--epochs", "100000"]
    process = subprocess.Popen(
        [*command, *small], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("epoch 2/"):
                break
        process.send_signal(signal.SIGINT)
        printed, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, told
    assert json.loads(printed)["finished"] is False
    assert "interrupted after epoch" in told
    assert (out / "model.safetensors").is_file()


def test_resume_needs_a_checkpoint(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    answer = cli("train", links_csv, "--out", tmp_path / "run", "--resume")
    assert (answer.code, "no checkpoint to resume from" in answer.err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_resume_refuses_another_graph_and_other_settings(
    cli: Cli, links_csv: Path, run_copy: Path, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in run_copy.iterdir()}
    other = write_links(tmp_path / "other.csv", community_links()[:-5])
    answer = cli("train", other, "--out", run_copy, "--resume")
    assert (answer.code, "was trained on another graph" in answer.err) == (2, True)
    answer = cli("train", links_csv, "--out", run_copy, "--resume", "--learning-rate", "0.5")
    assert (answer.code, "was trained with other settings" in answer.err) == (2, True)
    assert {path.name: path.read_bytes() for path in run_copy.iterdir()} == before


@pytest.mark.parametrize("how", ["cut", "garbage", "missing"])
@pytest.mark.parametrize("name", ["model.safetensors", "graph.safetensors", "nodes.parquet", "metrics.jsonl"])
def test_damaged_runs(cli: Cli, run_copy: Path, name: str, how: str) -> None:
    path = run_copy / name
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if how == "cut" else b"\x00garbage\xff" * 9)
    answer = cli("evaluate", run_copy, "--json")
    assert answer.code == 2, answer
    assert str(run_copy) in answer.json["error"]


def test_damaged_checkpoint(cli: Cli, links_csv: Path, run_copy: Path) -> None:
    path = run_copy / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    answer = cli("train", links_csv, "--out", run_copy, "--resume")
    assert answer.code == 2
    assert "checkpoint.safetensors is damaged" in answer.err


@pytest.mark.slow
def test_model_of_another_run(cli: Cli, links_csv: Path, run_copy: Path, tmp_path: Path) -> None:
    other = write_links(tmp_path / "other.csv", community_links()[:-5])
    assert cli("train", other, "--out", tmp_path / "other", *SMALL).code == 0
    shutil.copy(tmp_path / "other" / "model.safetensors", run_copy)
    answer = cli("evaluate", run_copy)
    assert (answer.code, "was trained on another graph" in answer.err) == (2, True)


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("fails_at", ["graph", "checkpoint"])
def test_full_disk_while_training(
    cli: Cli, links_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    save = files.save_file

    def save_until(tensors: object, path: Path, **more: object) -> None:
        if fails_at in path.name:
            path.write_bytes(b"half")
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
        save(tensors, path, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(files, "save_file", save_until)
    answer = cli("train", links_csv, "--out", tmp_path / "run", *SMALL, "--json")
    assert answer.code == 2
    assert "the disk is full" in answer.json["error"]
    assert list(tmp_path.iterdir()) == []


def test_full_disk_keeps_what_was_in_the_folder(
    cli: Cli, links_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    monkeypatch.setattr(files, "save_file", full_disk)
    assert cli("train", links_csv, "--out", tmp_path, *SMALL).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_full_disk_while_writing_answers(
    cli: Cli, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    out = tmp_path / f"links.{suffix}"
    out.write_text("old")
    monkeypatch.setattr(files.os, "fsync", full_disk)
    answer = cli("recommend", run_folder, "--out", out)
    assert answer.code == 2
    assert "the disk is full" in answer.err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(out.name, "old")]


def test_full_disk_while_splitting(cli: Cli, links_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.os, "fsync", full_disk)
    answer = cli("data", "split", links_csv, "--out", tmp_path / "s.npz")
    assert (answer.code, "the disk is full" in answer.err) == (2, True)
    assert list(tmp_path.iterdir()) == []
