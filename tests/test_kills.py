"""A few kills at random moments: what was killed and started again ends as if nothing had happened.

Many kills: `python scripts/kill_and_resume.py`; figures in docs/reliability.md.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headtail.errors import HeadtailError, RunError
from headtail.files import leftovers, write_text
from headtail.run_files import check_folder

SCRIPT = Path(__file__).parent.parent / "scripts" / "kill_and_resume.py"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of a process")
def test_a_few_kills() -> None:
    command = [sys.executable, str(SCRIPT), "--kills", "4", "--scale", "1", "--commands", "train,recommend"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith(("| train", "| recommend"))]
    assert [row[1] for row in rows] == ["4", "4"]


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
