"""A few kills at random moments: what was killed and started again ends as if nothing had happened.

Many kills: `python scripts/kill_and_resume.py`; figures in docs/reliability.md.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headtail import LinkPredictor
from headtail.errors import HeadtailError, RunError
from headtail.files import leftovers, write_text
from headtail.run_files import check_folder
from headtail.serving import choice, second_stage
from headtail.training.observer import Observer
from tiny_runs import predictor, small_graph

SCRIPT = Path(__file__).parent.parent / "scripts" / "kill_and_resume.py"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of a process")
def test_a_few_kills() -> None:
    command = [sys.executable, str(SCRIPT), "--kills", "4", "--scale", "1", "--commands", "train,recommend"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith(("| train", "| recommend"))]
    assert [row[1] for row in rows] == ["4", "4"]


DIES = """
import os, signal, sys
from pathlib import Path
from headtail.serving import choice, second_stage
from headtail.training.observer import Observer
from tiny_runs import predictor, small_graph

second_stage.ROUNDS, choice.COUNTS = 9, (2, 9)

def replaced(path, target):
    if Path(target).name == "answers.json":
        if sys.argv[2] == "half":
            os.truncate(path, 99)
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(path, target)

plain, Path.replace = Path.replace, replaced
predictor(epochs=2, answers="chosen").fit(small_graph(), sys.argv[1], observer=Observer())
"""


@pytest.mark.slow
@pytest.mark.parametrize("written", ["whole", "half"])
def test_a_run_killed_while_its_answers_are_written_answers_all_the_same(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_stage, "ROUNDS", 9)
    monkeypatch.setattr(choice, "COUNTS", (2, 9))
    run, whole = tmp_path / "run", tmp_path / "whole"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", DIES, str(run), written], env=environment, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert not (run / "answers.json").exists()
    assert [path.name for path in run.glob(".answers.json.*.tmp")] != []
    model = LinkPredictor.load(run, "cpu")
    wanted = predictor(epochs=2, answers="chosen").fit(small_graph(), whole, observer=Observer())
    assert model.recommend(k=3).equals(wanted.recommend(k=3))
    resumed = predictor(epochs=2, answers="chosen").fit(small_graph(), run, resume=True, observer=Observer())
    assert resumed.finished
    assert (run / "answers.json").read_bytes() == (whole / "answers.json").read_bytes()
    assert [path.name for path in run.glob(".*.tmp")] == []


def test_a_run_killed_in_its_first_epoch_may_begin_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(RunError, match="no checkpoint to resume from"):
        check_folder(run, resume=True, overwrite=False)
    write_text(run / "config.yaml", "")
    assert not check_folder(run, resume=True, overwrite=False)
    assert not check_folder(run, resume=False, overwrite=False)
    write_text(run / "checkpoint.safetensors", "")
    assert check_folder(run, resume=True, overwrite=False)
    with pytest.raises(HeadtailError, match="already holds a run"):
        check_folder(run, resume=False, overwrite=False)


def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    path = tmp_path / "links[1].csv"
    left, living, other = (
        tmp_path / f".{name}.tmp"
        for name in (f"links[1].csv.{dead.pid}", f"links[1].csv.{os.getppid()}", "links.csv.x")
    )
    for each in (left, living, other):
        each.write_text("half")
    assert list(leftovers(path, ".tmp")) == [left]
    write_text(path, "whole")
    assert {each.name for each in tmp_path.iterdir()} == {path.name, living.name, other.name}
