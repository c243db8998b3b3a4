"""Real processes under torchrun: training, a rank that dies, resuming with another number of ranks, recommending."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from real_ranks import SECONDS, torchrun, two_processes

from headtail import LinkPredictor
from headtail.cli import main
from headtail.errors import ConfigError, RanksError
from headtail.ranks import ALONE, current, joined

SETTINGS = "--preset fast --hidden 8 --layers 2 --structure 4 --links-per-batch 64 --eval-negatives 20 --device cpu"
# Enough that one can be killed among them.
EPOCHS = 30


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.integers(60, size=(400, 2)), columns=["source", "target"]).drop_duplicates()
    path = tmp_path_factory.mktemp("data") / "links.csv"
    table[table.source != table.target].to_csv(path, index=False)
    return path


def wait_for_epochs(run: Path, epochs: int) -> None:
    deadline = time.monotonic() + SECONDS
    journal = run / "metrics.jsonl"
    while not journal.is_file() or len(journal.read_text().splitlines()) < epochs:
        assert time.monotonic() < deadline, "training did not begin"
        time.sleep(0.02)


def rank_below(parent: int, rank: int) -> int:
    """Returns the process that torchrun started as a rank."""
    for task in Path(f"/proc/{parent}/task").iterdir():
        for child in (task / "children").read_text().split():
            if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                return int(child)
    raise AssertionError(f"rank {rank} is not there")


@pytest.fixture(scope="module")
def killed(links: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str, str]:
    """A run of two ranks, one of which was killed after some epochs; the exit code and what was printed."""
    run = tmp_path_factory.mktemp("runs") / "run"
    job = torchrun("train", str(links), "--out", str(run), *SETTINGS.split(), "--epochs", str(EPOCHS))
    try:
        wait_for_epochs(run, 2)
        os.kill(rank_below(job.pid, 1), signal.SIGKILL)
        out, told = job.communicate(timeout=SECONDS)
    finally:
        job.kill()
    return run, job.returncode, out, told


@pytest.mark.slow
def test_a_rank_that_dies_ends_the_job(killed: tuple[Path, int, str, str]) -> None:
    run, code, out, told = killed
    assert code != 0
    assert "rank      : 1 (local_rank: 1)" in told
    assert "Signal 9 (SIGKILL)" in told
    assert "test metric" not in out
    # Rank 0 alone speaks of progress.
    assert told.count("epoch 1/") == 1
    assert told.count("leak audit") == 1
    assert (run / "checkpoint.safetensors").is_file()
    assert not (run / "model.safetensors").exists()


@pytest.mark.slow
def test_a_run_goes_on_with_one_rank_and_answers_with_two(
    killed: tuple[Path, int, str, str], links: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = killed[0]
    assert main(["train", str(links), "--out", str(run), "--resume", "--json"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert (result["finished"], result["epochs"]) == (True, EPOCHS)
    model = LinkPredictor.load(run, device="cpu")
    arguments = ["recommend", str(run), "-k", "5", "--out", str(tmp_path / "links.csv"), "--device", "cpu", "--json"]
    with two_processes(*arguments) as ranks:
        (out, told), (silence, _) = (process.communicate(timeout=SECONDS) for process in ranks)
    assert [process.returncode for process in ranks] == [0, 0], told
    assert silence == ""
    answered, wanted = pd.read_csv(tmp_path / "links.csv"), model.recommend(k=5)
    assert json.loads(out)["rows"] == len(wanted)
    assert answered[["head", "rank"]].astype(str).equals(wanted[["head", "rank"]].astype(str))
    np.testing.assert_allclose(answered["score"], wanted["score"], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_a_rank_that_hangs_is_not_waited_for_forever(links: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = ["train", str(links), "--out", str(run), *SETTINGS.split(), "--epochs", "100000"]
    with two_processes(*arguments, HEADTAIL_RANK_TIMEOUT="3") as (lead, other):
        wait_for_epochs(run, 1)
        other.send_signal(signal.SIGSTOP)
        _, told = lead.communicate(timeout=SECONDS)
        assert lead.returncode == 2, told
        assert "error (rank 0 of 2): rank 0 of 2 lost the others, or waited too long for them" in told
        assert "--resume" in told


# A rank that exchanges something in each of the three ways, the last time with one that hangs, and then tells which
# threads of the exchange are left. One that is could end the process by a signal while Python ends.
LEAVES = """
import os, signal, sys
from pathlib import Path
import torch
from headtail.errors import RanksError
from headtail.ranks import joined
way = sys.argv[1]
try:
    with joined("cpu") as ranks:
        getattr(ranks, way)(torch.ones(3))
        if ranks.leads:
            getattr(ranks, way)(torch.ones(3))
        else:
            os.kill(os.getpid(), signal.SIGSTOP)
except RanksError as error:
    kept = error
names = [Path(f"/proc/self/task/{thread}/comm").read_text() for thread in os.listdir("/proc/self/task")]
print("kept" in vars(), [name for name in names if "gloo" in name])
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["sum", "each", "of_first"])
def test_nothing_of_the_exchange_outlives_leaving_a_rank_that_hangs(way: str) -> None:
    with two_processes(way, python=("-c", LEAVES), HEADTAIL_RANK_TIMEOUT="2") as (lead, _):
        out, told = lead.communicate(timeout=SECONDS)
    assert (lead.returncode, out) == (0, "True []\n"), told


def test_other_commands_run_in_one_process(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert main(["methods"]) == 2
    told = capfd.readouterr().err
    assert "error (rank 1 of 2): headtail methods runs in one process, but WORLD_SIZE says that 2 were started" in told


@pytest.mark.slow
def test_what_is_wrong_with_the_environment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    with joined("cpu") as ranks:
        assert ranks is current() is ALONE
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(RanksError, match="WORLD_SIZE is 'many', which is no whole number"), joined("cpu"):
        pass
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with (
        pytest.raises(RanksError, match="RANK, MASTER_ADDR, MASTER_PORT is not set; start ranks with torchrun"),
        joined("cpu"),
    ):
        pass
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(ConfigError, match="several ranks cannot share device 'cuda:1'"), joined("cuda:1"):
        pass
    monkeypatch.setenv("HEADTAIL_RANK_TIMEOUT", "1")
    with (
        pytest.raises(RanksError, match=r"rank 1 of 2 cannot join the others at 127\.0\.0\.1:1 within 1 s"),
        joined("cpu"),
    ):
        pass
