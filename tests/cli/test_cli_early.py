"""What commands import: nothing large to tell of a wrong path or name, nothing that they have no use for to answer."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_case import Cli

from headtail.datasets.catalog import DATASETS
from headtail.datasets.ogb import LAYOUTS
from headtail.errors import DataError, RunError
from headtail.given import check_data, check_files, check_plot_file, check_split, check_table_file
from headtail.run_files import CHECKPOINT_FILE, CONFIG_FILE, MODEL_FILE, check_run

# In the folder of the fixture `wrong`.
WRONG: dict[str, tuple[list[str], str]] = {
    "no data": (["train", "none.csv", "--out", "r"], "there is no file 'none.csv' and no data set of that name"),
    "a name like another": (["train", "debain", "--out", "r"], "did you mean 'debian'?"),
    "a folder of data": (["train", "empty", "--out", "r"], "empty is a folder; name a file of links in it"),
    "no features": (["train", "g.csv", "--features", "x.npy", "--out", "r"], "there is no file x.npy"),
    "no node table": (["train", "g.csv", "--nodes", "n.csv", "--out", "r"], "there is no file n.csv"),
    "no held-out links": (["train", "g.csv", "--valid", "v", "--test", "t", "--out", "r"], "there is no file v"),
    "half a split": (["train", "g.csv", "--valid", "g.csv", "--out", "r"], "only one of valid and test is given"),
    "no settings": (
        ["train", "g.csv", "--config", "c.yaml", "--out", "r"],
        "cannot read settings c.yaml: No such file",
    ),
    "wrong settings": (["train", "g.csv", "--config", "wrong.yaml", "--out", "r"], "unknown setting 'epoch'"),
    "a preset's name": (["train", "g.csv", "--preset", "weak", "--out", "r"], "unknown preset 'weak'"),
    "a setting's value": (["train", "g.csv", "--epochs", "0", "--out", "r"], "setting 'epochs' cannot be 0"),
    "a run that is a file": (["train", "g.csv", "--out", "g.csv"], "g.csv is a file; a run needs a folder"),
    "a run that is there": (["train", "g.csv", "--out", "whole"], "whole already holds a run"),
    "nothing to resume": (["train", "g.csv", "--out", "empty", "--resume"], "has no checkpoint to resume from"),
    "evaluate no run": (["evaluate", "none"], "none is not a run folder: it has no config.yaml"),
    "evaluate half a run": (["evaluate", "begun"], "begun has no finished model yet"),
    "a plot's name": (["evaluate", "whole", "--reliability", "p.pdf"], "plots are written as .png or .svg"),
    "predict no pairs": (["predict", "whole", "none.csv"], "there is no file none.csv"),
    "predict no run": (["predict", "none", "g.csv"], "none is not a run folder"),
    "predict to a folder": (["predict", "whole", "g.csv", "--out", "empty.csv"], "empty.csv: it is a folder"),
    "recommend no run": (["recommend", "none", "--heads", "a"], "none is not a run folder"),
    "recommend from a file": (["recommend", "g.csv", "--heads", "a"], "g.csv is not a run folder"),
    "recommend half a run": (["recommend", "begun", "--heads", "a"], "begun has no finished model yet"),
    "no heads": (["recommend", "whole", "--heads-file", "none.txt"], "cannot read none.txt: No such file"),
    "answers of another kind": (["recommend", "whole", "--out", "a.xlsx"], "tables are written as .parquet or .csv"),
    "compare no data": (["compare", "none.csv"], "there is no file 'none.csv'"),
    "compare no features": (["compare", "g.csv", "--features", "x.npy"], "there is no file x.npy"),
    "compare by a preset": (["compare", "g.csv", "--preset", "weak"], "unknown preset 'weak'"),
    "info of nothing": (["data", "info", "none.csv"], "there is no file 'none.csv'"),
    "info without features": (["data", "info", "g.csv", "--features", "x.npy"], "there is no file x.npy"),
    "split nothing": (["data", "split", "none.csv", "--out", "s.npz"], "there is no file 'none.csv'"),
    "pack nothing": (["data", "pack", "none.csv", "--out", "s.ht"], "there is no file none.csv"),
    "bench nothing": (["bench", "--data", "none.csv"], "there is no file 'none.csv'"),
    "paper of nothing": (["paper", "main", "--data", "none.csv"], "there is no file 'none.csv'"),
}
LARGE = ("torch", "numpy", "pandas", "pyarrow", "scipy")
# All of them in one process: the first that imports something large is named.
EARLY = f"""
import contextlib, io, json, sys
from headtail.cli import main
for name, arguments in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        code = main(arguments)
    found = [large for large in {LARGE} if large in sys.modules]
    if found or code != (0 if name == "help" else 2):
        sys.exit(f"{{name}}: {{code}} {{found}}")
"""


# What answering from a run of the GNN has no use for: other methods, readers of data, plots, comparisons.
UNUSED = (
    "sklearn",
    "matplotlib",
    "torch_geometric",
    "networkx",
    "triton",
    "torch._dynamo",
    "torch._inductor",
    "rich.progress",
    "headtail.experiments",
    "headtail.baselines",
    "headtail.datasets.read",
    "headtail.datasets.text",
    "headtail.training.progress",
)
ANSWERED = f"""
import sys
from headtail.cli import main
code = main(sys.argv[1:])
sys.exit(code or " ".join(name for name in {UNUSED} if name in sys.modules) or 0)
"""


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with links, settings that are wrong, and runs: begun, and whole as far as names tell."""
    monkeypatch.chdir(tmp_path)
    Path("g.csv").write_text("a,b\nx,y\ny,z\n")
    Path("wrong.yaml").write_text("epoch: 3\n")
    for folder in ("empty", "empty.csv", "begun", "whole"):
        Path(folder).mkdir()
    for folder in ("begun", "whole"):
        (tmp_path / folder / CONFIG_FILE).write_text("")
    (tmp_path / "whole" / MODEL_FILE).write_text("")
    return tmp_path


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told(cli: Cli, wrong: Path, case: str) -> None:
    arguments, message = WRONG[case]
    before = sorted(wrong.rglob("*"))
    answer = cli(*arguments, "--json")
    assert (answer.code, message in answer.json["error"]) == (2, True), answer
    assert sorted(wrong.rglob("*")) == before


@pytest.mark.slow
def test_nothing_large_is_imported_to_tell_it(wrong: Path) -> None:
    commands = {name: arguments for name, (arguments, _) in WRONG.items()}
    asked = json.dumps(commands | {"help": ["recommend", "--help"]})
    done = subprocess.run([sys.executable, "-c", EARLY, asked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_answer_waits_for_no_module_that_it_has_no_use_for(run_folder: Path) -> None:
    command = [sys.executable, "-c", ANSWERED, "recommend", str(run_folder), "--heads", "p00", "-k", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 links for 1 heads" in done.stderr


def test_what_is_there_passes(wrong: Path) -> None:
    (wrong / "whole" / CHECKPOINT_FILE).touch()
    check_run(Path("whole"))
    check_files([wrong / "g.csv", "empty"])
    check_split(None, None)
    check_split("a", "b")
    check_table_file(Path("new.csv"))
    check_plot_file(Path("new.PNG"))
    for data in ("g.csv", wrong / "g.csv", "planted"):
        check_data(data, DATASETS)
    with pytest.raises(DataError, match="no data set of that name"):
        check_data(Path("planted"), DATASETS)  # a path is no name
    with pytest.raises(DataError, match="there is no file"):
        check_files(["x" * 5000])


def test_a_run_whose_files_lie_elsewhere_is_none(wrong: Path) -> None:
    (wrong / "whole" / MODEL_FILE).unlink()
    (wrong / "elsewhere").touch()
    (wrong / "whole" / MODEL_FILE).symlink_to(wrong / "elsewhere")
    with pytest.raises(RunError, match="leads out of the run folder"):
        check_run(Path("whole"))


def test_names_of_data_are_those_that_are_read() -> None:
    assert set(LAYOUTS) == {name for name in DATASETS if name.startswith("ogbl-")}
    assert DATASETS["planted"]().links.dtype == np.int64


def test_ranks_leave_the_folder_to_the_first_of_them(cli: Cli, wrong: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    # It goes on, to where it would meet the others.
    answer = cli("train", "g.csv", "--out", "whole", "--device", "cpu")
    assert (answer.code, "MASTER_PORT is not set" in answer.err) == (2, True), answer
