"""What the library logs while a command runs: shown once, on stderr, above the bars, by the rank that leads."""

import io
import logging
from pathlib import Path

import pytest
from cli_case import SMALL, Cli
from rich.console import Console
from rich.progress import Progress

from headtail.cli.log import LOG, shown_log
from headtail.training import placement

Captured = pytest.CaptureFixture[str]
CHOSEN = "they lie in files, of which the system keeps what is used."


def test_what_is_chosen_automatically_is_said_once_by_every_command(
    cli: Cli, links_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "available_bytes", lambda: 0)
    run = tmp_path / "run"
    for command in (("train", links_csv, "--out", run, *SMALL), ("evaluate", run, "--device", "cpu")):
        answer = cli(*command, "--json")
        assert answer.code == 0, answer.err
        assert [line.endswith(CHOSEN) for line in answer.err.splitlines()].count(True) == 1, answer.err
        assert answer.json["metric"]


def test_a_command_that_chooses_nothing_is_silent(cli: Cli, run_folder: Path) -> None:
    assert cli("evaluate", run_folder, "--device", "cpu").err == ""


def test_remarks_and_warnings_are_single_printable_lines(capsys: Captured) -> None:
    with shown_log(debug=False):
        LOG.info("a table of %s is\nwritten to \x1b[31m%s", "1.0 GiB", "here")
        LOG.warning("memory does not do.")
        LOG.debug("a detail")
    captured = capsys.readouterr()
    assert captured.err == "a table of 1.0 GiB is written to \\x1b[31mhere.\nwarning: memory does not do.\n"
    assert captured.out == ""


def test_a_sentence_is_not_repeated(capsys: Captured) -> None:
    with shown_log(debug=False):
        for sentence in ("it is so", "it is so.", "it is not so"):
            LOG.info(sentence)
    assert capsys.readouterr().err.splitlines() == ["it is so.", "it is not so."]


def test_details_come_with_debug(capsys: Captured) -> None:
    with shown_log(debug=True):
        LOG.debug("a detail")
    assert capsys.readouterr().err == "a detail.\n"


def test_ranks_that_follow_only_warn(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    for rank, said in (("0", ["a choice.", "warning (rank 0 of 4): no."]), ("2", ["warning (rank 2 of 4): no."])):
        monkeypatch.setenv("RANK", rank)
        with shown_log(debug=False):
            LOG.info("a choice")
            LOG.warning("no")
        assert capsys.readouterr().err.splitlines() == said
    monkeypatch.setenv("WORLD_SIZE", "1")  # by itself, whatever number it was given
    with shown_log(debug=False):
        LOG.info("a choice")
    assert capsys.readouterr().err == "a choice.\n"


def test_the_logger_is_left_as_it_was(capsys: Captured, caplog: pytest.LogCaptureFixture) -> None:
    before = LOG.level, list(LOG.handlers)
    with pytest.raises(ZeroDivisionError), shown_log(debug=True):
        _ = 1 / 0
    assert (LOG.level, LOG.handlers) == before
    with caplog.at_level(logging.INFO, "headtail"):
        LOG.info("to who listens in Python")
    assert (capsys.readouterr().err, caplog.messages) == ("", ["to who listens in Python"])


def test_a_line_stands_above_a_bar_that_is_on_the_screen() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, legacy_windows=False)
    with shown_log(debug=False), Progress(console=console, auto_refresh=False) as bar:
        bar.add_task("epoch", total=2)
        bar.refresh()
        LOG.info("Features stay in host memory")
    drawn = screen.getvalue()
    # The bar is wiped, the line takes its place, and the bar is drawn again below.
    wiped, _, after = drawn.partition("Features stay in host memory.\n")
    assert wiped.endswith("\r\x1b[2K")
    assert after.lstrip("\x1b[0m").startswith("epoch")
