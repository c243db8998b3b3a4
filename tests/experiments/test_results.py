"""Results on disk survive crashes, junk and company; summaries are means over seeds."""

import json
import multiprocessing
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from grid_case import result

from headtail.errors import DataError
from headtail.experiments.results import append_result, identity, make_ready, read_results, summarise

RUNS = [
    result("aml", 0.25, seed=0, curve=[[0.5, 0.1, 0.2], [1.0, 0.3, 0.25]]),
    result("sage", 0.5, seed=1, jobs=3, settings={"encoder": "gat", "structure": "auto", "residual": False}),
    result("ra", 1.0, data="naïve\u2028\u0085 \t|", epochs=0, valid=-1.0),
]


def refuse(message: str) -> None:
    raise AssertionError(message)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "deep" / "results.jsonl"
    for run in RUNS:
        append_result(file, run)
    return file


def test_what_is_written_is_read(path: Path) -> None:
    assert read_results(path, refuse) == RUNS
    assert [json.loads(line) for line in path.read_text().split("\n")[:-1]] == [asdict(run) for run in RUNS]
    assert [entry.name for entry in path.parent.iterdir()] == ["results.jsonl"]


def test_lines_from_before_lists_were_judged_are_read(path: Path) -> None:
    old = [asdict(run) for run in RUNS]
    for line in old:
        for name in ("negatives", "heads_sampled", "all_nodes"):
            del line[name]
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    assert read_results(path, refuse) == RUNS


def test_what_lists_are_worth_is_read(tmp_path: Path) -> None:
    figures = {"recall@10": 0.25, "heads": 9, "links": 12}
    run = result("cn", 0.5, negatives=300, heads_sampled=9, all_nodes=figures)
    append_result(tmp_path / "results.jsonl", run)
    assert read_results(tmp_path / "results.jsonl", refuse) == [run]


def test_no_file_is_no_results(tmp_path: Path) -> None:
    assert read_results(tmp_path / "none.jsonl", refuse) == []
    assert not list(tmp_path.iterdir())


def line_of(**changes: object) -> bytes:
    return json.dumps(asdict(RUNS[0]) | changes).encode()


BROKEN = {
    "cut short": line_of()[:200],
    "cut in a letter": line_of(data="naïve").replace(b"\\u00ef", "ï".encode())[:13],
    "not JSON": b"hello",
    "another schema": b'{"method": "aml", "mrr": 0.5}',
    "an array": b"[1, 2]",
    "a field too many": line_of(colour="red"),
    "a field too few": json.dumps({k: v for k, v in asdict(RUNS[0]).items() if k != "metric"}).encode(),
    "a number as text": line_of(test="0.5"),
    "no number": line_of(test=None),
    "not a number": line_of(test=float("nan")),
    "a list for a mapping": line_of(per_epoch=[1]),
    "a curve of words": line_of(curve=[["a"]]),
    "bytes": bytes(range(128, 256)) + b"\x00\x0b\x0c\r\x1c",
    "two lines in one": line_of() + line_of(),
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("junk", BROKEN.values(), ids=BROKEN)
def test_broken_lines_are_set_aside_and_named(path: Path, junk: bytes) -> None:
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], junk, b"", lines[1], lines[2]]))
    said: list[str] = []
    assert read_results(path, said.append) == RUNS
    aside = path.with_name("results.jsonl.broken")
    assert aside.read_bytes() == junk + b"\n"
    assert len(said) == 1
    assert "line 2 is" in said[0]
    assert str(path) in said[0]
    assert str(aside) in said[0]
    assert "the other 3 are used" in said[0]
    # Afterwards the file is sound: nothing more to say, and it can be added to.
    append_result(path, result("mf"))
    assert read_results(path, refuse) == [*RUNS, result("mf")]


def test_broken_lines_pile_up(path: Path) -> None:
    said: list[str] = []
    for junk in (b"one", b"two\nthree"):
        path.write_bytes(junk + b"\n" + path.read_bytes())
        assert read_results(path, said.append) == RUNS
    assert path.with_name("results.jsonl.broken").read_bytes() == b"one\ntwo\nthree\n"
    assert "line 1 is" in said[0]
    assert "lines 1, 2 are" in said[1]


def test_a_last_line_without_its_end_is_used_and_left_alone(path: Path) -> None:
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert read_results(path, refuse) == RUNS
    append_result(path, result("mf"))
    assert read_results(path, refuse) == [*RUNS, result("mf")]


def test_a_run_after_a_crash_starts_its_own_line(path: Path) -> None:
    """Even if nobody read the file in between, the cut line costs only itself."""
    with path.open("ab") as file:
        file.write(line_of()[:150])
    append_result(path, result("mf"))
    said: list[str] = []
    assert read_results(path, said.append) == [*RUNS, result("mf")]
    assert "line 4 is" in said[0]


def append_many(path: Path, method: str) -> None:
    for seed in range(60):
        append_result(path, result(method, seed=seed, curve=[[1.0, 0.5, 0.5]] * 200))


def test_processes_may_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    context = multiprocessing.get_context("fork")  # starts at once, where a fresh interpreter takes seconds
    workers = [context.Process(target=append_many, args=(path, name)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    found = read_results(path, refuse)
    assert sorted(identity(run) for run in found) == sorted(("tiny", m, s, "k") for m in "ab" for s in range(60))


@pytest.mark.parametrize(
    "act", [make_ready, lambda path: append_result(path, RUNS[0]), lambda path: read_results(path, refuse)]
)
def test_a_folder_that_is_a_file_is_told(act: object, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"(read|write) results.*results.jsonl: .*directory|exists"):
        act(tmp_path / "file" / "results.jsonl")  # type: ignore[operator]


def test_a_full_disk_is_told() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no device that is always full")
    with pytest.raises(DataError, match="cannot write results to /dev/full: No space left"):
        append_result(Path("/dev/full"), RUNS[0])


def test_a_summary_is_mean_and_sample_deviation() -> None:
    tests = [0.1, 0.25, 0.4]
    runs = [
        result(test=t, seed=s, train_seconds=x) for s, (t, x) in enumerate(zip(tests, (9.0, 1.0, 2.0), strict=True))
    ]
    summary = summarise(runs)
    assert summary is not None
    assert summary.mean == pytest.approx(100 * np.mean(tests))
    assert summary.std == pytest.approx(100 * np.std(tests, ddof=1))
    assert (summary.runs, summary.seconds, summary.valid) == (3, 2.0, pytest.approx(25.0))
    assert str(summary) == "25.00 ± 15.00"


def test_a_summary_leaves_out_what_was_not_measured() -> None:
    assert summarise([]) is None
    crowded = summarise([result(jobs=4), result(jobs=4, seed=1)])
    assert crowded is not None
    assert crowded.seconds is None
    mixed = summarise([result(jobs=4, train_seconds=100.0), result(seed=1, train_seconds=7.0)])
    assert mixed is not None
    assert mixed.seconds == 7.0
    heuristic = summarise([result("ra", epochs=0, valid=-1.0)])
    assert heuristic is not None
    assert (heuristic.seconds, heuristic.valid, heuristic.std) == (None, None, 0.0)
