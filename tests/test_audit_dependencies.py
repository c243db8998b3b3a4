"""The audit of dependencies fails for what it finds, and for nothing that a network does."""

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "audit_dependencies.py"


Audited = Callable[[str | None], tuple[int, list[str]]]


@pytest.fixture
def audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Audited:
    """Runs the script with a pip-audit that prints so, or with none; what is installed here is not its subject."""
    spec = importlib.util.spec_from_file_location("audit_dependencies", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "misfits", list)
    monkeypatch.setattr(script, "unpinned", lambda pins: [])

    def run(printed: str | None) -> tuple[int, list[str]]:
        tool = tmp_path / "pip-audit"
        if printed is not None:
            tool.write_text(f"#!{sys.executable}\nprint({printed!r})\n")
            tool.chmod(0o755)
        return script.main(["--tool", str(tool)]), capsys.readouterr().out.splitlines()

    return run


def answer(*packages: dict[str, object]) -> str:
    return json.dumps({"dependencies": packages})


GOOD: dict[str, object] = {"name": "numpy", "version": "1", "vulns": []}
BAD: dict[str, object] = {"name": "torch", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
UNKNOWN: dict[str, object] = {"name": "rich", "version": "1", "skip_reason": "not found"}


@pytest.mark.parametrize("text", [None, "", "no route to host", answer(UNKNOWN), "{}"])
def test_a_service_that_is_not_there_is_one_line_and_no_failure(audited: Audited, text: str | None) -> None:
    code, lines = audited(text)
    assert code == 0
    assert len(lines) == 1
    assert lines[0].startswith("not audited: ")


def test_what_it_finds_is_a_failure(audited: Audited) -> None:
    code, lines = audited(answer(GOOD, BAD, UNKNOWN))
    assert code == 1
    assert lines[0] == "torch 1: CVE-1, mended in 2"
    assert lines[1].startswith("audited 2 of ")
    assert audited(answer(GOOD))[0] == 0


def test_continuous_integration_runs_it() -> None:
    steps = (SCRIPT.parents[1] / ".ci" / "run").read_text()
    assert "make audit" in steps
    assert os.access(SCRIPT.parents[1] / ".ci" / "run", os.X_OK)
