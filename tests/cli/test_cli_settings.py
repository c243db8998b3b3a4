"""Every setting is a flag; presets, YAML and flags override each other in that order; typos are told."""

from pathlib import Path

import pytest
import yaml
from cli_case import SMALL, Cli
from rich.cells import cell_len

from headtail.config import SECTION_OF, SECTIONS
from headtail.presets import PRESETS


def settings_of(run: Path) -> dict[str, object]:
    tree = yaml.safe_load((run / "config.yaml").read_text())
    return {name: value for section in tree.values() for name, value in section.items()}


def test_help_names_every_setting(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    answer = cli("train", "--help")
    assert answer.code == 0
    words = set(answer.out.split())
    assert {f"--{name.replace('_', '-')}" for name in SECTION_OF} <= words
    assert {"--no-drop-leaks", "--undirected", "--features", "--resume"} <= words
    for section in SECTIONS.values():
        assert f"─ {(section.__doc__ or '').rstrip('.')} ─" in answer.out
    assert "…" not in answer.out  # nothing is cut off at 80 columns
    assert max(map(cell_len, answer.out.splitlines())) <= 80
    assert "$ headtail train links.csv --out runs/first" in answer.out


@pytest.mark.parametrize("command", [["evaluate"], ["predict"], ["recommend"], ["demo"], ["data", "list"]])
def test_help_has_an_example_and_the_common_flags(cli: Cli, command: list[str]) -> None:
    text = cli(*command, "--help").out
    assert f"$ headtail {' '.join(command)}" in text
    assert "--json" in text
    assert "--debug" in text


def test_flags_override_yaml_overrides_preset(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("training: {epochs: 5, learning_rate: 0.02}\nfanout_inner: all\n")
    options = ("--config", config, "--fanout-output", "all", "--structure", "4", "--no-residual", "--epochs", "1")
    assert cli("train", links_csv, "--out", tmp_path / "run", *options, "--eval-negatives", "5").code == 0
    chosen = settings_of(tmp_path / "run")
    assert (chosen["epochs"], chosen["learning_rate"]) == (1, 0.02)
    assert (chosen["fanout_inner"], chosen["fanout_output"], chosen["structure"]) == ("all", "all", 4)
    assert chosen["residual"] is False
    # What nobody mentioned is the preset's, or the tree's where the preset has no say.
    assert chosen["folds"] == PRESETS["strong"]["folds"] != 1
    assert chosen["homophily"] is True


def test_preset_can_be_chosen(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    options = ("--preset", "paper", *SMALL, "--structure", "auto", "--encoder", "gat")
    assert cli("train", links_csv, "--out", tmp_path / "run", *options).code == 0
    chosen = settings_of(tmp_path / "run")
    assert (chosen["layers"], chosen["hidden"], chosen["structure"]) == (3, 8, "auto")
    assert chosen["encoder"] == "gat"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--epoch", "3"], "--epochs"),
        (["--preset", "fsat"], "did you mean 'fast'?"),
        (["--encoder", "gatt"], "did you mean 'gat'?"),
        (["--neighbours", "bsn"], "did you mean 'bns'?"),
        (["--metric", "mrrr"], "did you mean 'mrr'?"),
        (["--epochs", "many"], "'--epochs'"),
        (["--epochs", "0"], "setting 'epochs' cannot be 0"),
        (["--structure", "atuo"], "neither int nor auto"),
        (["--normalisation", "rwo"], "'row', 'column' or 'symmetric'"),
        (["--device", "gpu"], "unknown device 'gpu'"),
    ],
)
def test_wrong_flags(cli: Cli, links_csv: Path, tmp_path: Path, flags: list[str], message: str) -> None:
    answer = cli("train", links_csv, "--out", tmp_path / "run", *flags, "--json")
    assert answer.code == 2
    assert message in answer.json["error"]
    assert answer.err.startswith("error: ")
    assert len(answer.err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trainin: {epochs: 3}", "c.yaml: unknown section 'trainin'; did you mean 'training'?"),
        ("training: {epoch: 3}", "c.yaml: unknown setting 'training.epoch'; did you mean 'epochs'?"),
        ("epohcs: 3", "c.yaml: unknown setting 'epohcs'; did you mean 'epochs'?"),
        ("epochs: three", "setting 'epochs' cannot be 'three'"),
        ("epochs: [", "c.yaml is not valid YAML"),
        ("- epochs", "c.yaml must map setting names"),
    ],
)
def test_wrong_yaml(cli: Cli, links_csv: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    answer = cli("train", links_csv, "--out", tmp_path / "run", "--config", tmp_path / "c.yaml")
    assert answer.code == 2
    assert message in answer.err
    assert not (tmp_path / "run").exists()


def test_missing_yaml(cli: Cli, links_csv: Path, tmp_path: Path) -> None:
    answer = cli("train", links_csv, "--out", tmp_path / "run", "--config", tmp_path / "none.yaml")
    assert (answer.code, "none.yaml: No such file" in answer.err) == (2, True)
