"""The front of the command line: version, exit codes, tracebacks, start-up."""

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest
from cli_case import Cli

import headtail
from headtail import LinkPredictor


def test_version(cli: Cli) -> None:
    answer = cli("--version")
    assert (answer.code, answer.out) == (0, f"headtail {headtail.__version__}\n")


def test_nothing_asked_shows_the_commands(cli: Cli) -> None:
    text = cli().out
    for command in ("demo", "train", "evaluate", "predict", "recommend", "data"):
        assert f" {command} " in text


def test_unknown_command_and_missing_argument(cli: Cli) -> None:
    answer = cli("recomend", "--json")
    assert answer.code == 2
    assert "recommend" in answer.json["error"]
    answer = cli("train", "links.csv")
    assert (answer.code, "--out" in answer.err) == (2, True)


def test_defects_of_ours_are_a_sentence_and_a_traceback_on_request(
    cli: Cli, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(LinkPredictor, "evaluate", broken)
    answer = cli("evaluate", run_folder, "--json")
    sentence = "internal error (ZeroDivisionError: by nothing); run again with --debug for the traceback"
    assert (answer.code, answer.err) == (1, f"error: {sentence}\n")
    assert answer.json == {"error": sentence}
    answer = cli("evaluate", run_folder, "--debug")
    assert answer.code == 1
    assert "Traceback" in answer.err
    assert "in broken" in answer.err


def test_debug_shows_where_a_refusal_came_from(cli: Cli, tmp_path: Path) -> None:
    answer = cli("evaluate", tmp_path, "--debug")
    assert answer.code == 2
    assert "Traceback" in answer.err
    assert "is not a run folder" in answer.err.splitlines()[-1]


def test_interrupt_anywhere(cli: Cli, run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LinkPredictor, "evaluate", interrupted)
    answer = cli("evaluate", run_folder)
    assert (answer.code, "Traceback" in answer.err) == (130, False)


def test_demo_hands_its_options_over(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []
    stand_in = types.ModuleType("headtail.experiments.demo")

    def run_demo(*arguments: object) -> dict[str, object]:
        calls.append(arguments)
        return {"results": []}

    stand_in.run_demo = run_demo  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    assert cli("demo", "--out", "here", "--seed", "7", "--device", "cpu", "--json").json == {"results": []}
    assert cli("demo").out == ""
    assert calls == [(Path("here"), "cpu", 7, True), (Path("headtail-demo"), "auto", 0, False)]


# The package itself is replaced by an empty one: what is measured is that the command line needs none of the
# heavy libraries to show its help, whatever `import headtail` brings.
HELP_WITHOUT_TORCH = """
import sys, types
package = types.ModuleType("headtail")
package.__path__ = [sys.argv[1]]
sys.modules["headtail"] = package
from headtail.cli import main
code = main(["train", "--help"])
print([name for name in ("torch", "numpy", "pandas", "pyarrow", "scipy") if name in sys.modules])
sys.exit(code)
"""


@pytest.mark.slow
def test_help_needs_no_torch() -> None:
    folder = str(Path(headtail.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", HELP_WITHOUT_TORCH, folder], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_as_a_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headtail", "train", str(tmp_path / "none.csv"), "--out", str(tmp_path / "run")]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "none.csv" in json.loads(done.stdout)["error"]
    assert done.stderr.startswith("error: there is no file")
    assert list(tmp_path.iterdir()) == []
