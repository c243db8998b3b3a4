"""A run on the tiny graph, and a way to call the command line in this process."""

from pathlib import Path

import pytest
from cli_case import SMALL, Answer, Cli, community_links, write_links

from headtail.cli import main


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*arguments: object) -> Answer:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def links_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The links with two self-loops and one repeated link."""
    links = [*community_links(), ("p00", "p00"), ("p01", "p01")]
    return write_links(tmp_path_factory.mktemp("data") / "links.csv", [*links, links[0]])


@pytest.fixture(scope="session")
def run_folder(links_csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run; tests that change it work on a copy."""
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", str(links_csv), "--out", str(out), *SMALL]) == 0
    return out
