"""Kills commands with SIGKILL at random moments, runs them again, and compares the end with an uninterrupted run.

    python scripts/kill_and_resume.py --kills 30

Commands run in forks of this process, which start at once, so a kill can come at any moment of the work. Just before
it, the process writes down where it is: that tells which parts of the work were hit. A run is killed and started again
until it ends, then the next one begins, until there were enough kills.
"""

import argparse
import faulthandler
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

# Forks must find no threads of a library that they would wait for.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pandas as pd
import torch

# Forks need not import them again.
import headtail.experiments.paper
import headtail.graph.packed.pack
import headtail.predictor
import headtail.serving.parts
from headtail.cli import main
from headtail.files import file_digest
from headtail.graph.packed.stages import STAGES

# The innermost function of a stack that is named here says what was hit.
PHASES = {
    "write_tensors": "a checkpoint, model or graph being written",
    "keep_answers": "what answers need being made and written",
    "replacing": "a file being written",
    "append_result": "a result being written",
    "new_run": "a run being begun",
    "evaluate_part": "evaluation",
    "_train_epoch": "an epoch",
    "read_tensors": "a checkpoint, model or graph being read",
    "recommend_blocks": "nodes being encoded",
    "write_table": "answers",
    "choose": "what answers being chosen",
    "_write_model": "the end of training",
    "make_task": "the split and features being made",
    "read_ids": "ids being read",
    "sort_links": "links being sorted",
    "hold_out": "links being held out",
    "build_messages": "the message graph being built",
    "build_rows": "rows being built",
    "copy_features": "features being copied",
    "_finish": "the store being finished",
    "load": "data being read",
}
TIMINGS = {"seconds", "links_per_second", "evaluation_seconds", "train_seconds", "prepare_seconds"}


@dataclass(frozen=True)
class Killed:
    """A command that is killed.

    Attributes:
        name: what it is called in the table.
        arguments: of the command, given the folder to write to.
        outcome: what must be equal in the end, given that folder.
        kept: what must not be lost by a kill: a list that only grows at its end.
        again: arguments to start it again; None: the same.
    """

    name: str
    arguments: Callable[[Path], list[str]]
    outcome: Callable[[Path], object]
    kept: Callable[[Path], list[str]]
    again: Callable[[Path], list[str]] | None = None


@dataclass
class Tally:
    """What became of the runs of a command."""

    kills: int = 0
    runs: int = 0
    wrong: int = 0
    lost: int = 0
    left: int = 0
    phases: Counter[str] = field(default_factory=Counter)


def run(arguments: list[str], log: Path, seconds: float | None = None) -> tuple[int | None, str]:
    """Runs a command in a fork and kills it after so many seconds; returns its exit code, None if killed, and where."""
    stack = log.with_suffix(".stack")
    stack.write_text("")
    child = os.fork()
    if child == 0:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        faulthandler.register(signal.SIGUSR1, file=stack.open("a"), all_threads=False)
        torch.set_num_threads(1)
        code = 1
        try:
            code = main(arguments)
        finally:
            os._exit(code)
    if seconds is None:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), ""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), ""
        time.sleep(max(0.0, min(0.002, deadline - time.monotonic())))
    os.kill(child, signal.SIGUSR1)
    time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status):  # it was quicker
        return os.waitstatus_to_exitcode(status), ""
    return None, phase(stack.read_text())


def phase(stack: str) -> str:
    """Says what a process was doing by its stack, of which the innermost call is the first line."""
    for line in stack.splitlines():
        for function, what in PHASES.items():
            if line.rstrip().endswith(f" in {function}"):
                return what
    return "elsewhere"


def try_out(command: Killed, kills: int, folder: Path, chance: random.Random) -> Tally:
    """Kills a command so often; every run that ended is compared with one that was left alone."""
    tally, log = Tally(), folder / "log.txt"
    whole = folder / f"{command.name}-whole"
    start = time.monotonic()
    code, _ = run(command.arguments(whole), log)
    if code:
        sys.exit(f"{command.name} fails without being killed:\n{log.read_text()}")
    wanted, seconds = command.outcome(whole), time.monotonic() - start
    while tally.kills < kills:
        place = folder / f"{command.name}-{tally.runs}"
        killed_runs = 0
        while True:
            again = command.again or command.arguments
            arguments = again(place) if killed_runs else command.arguments(place)
            before = command.kept(place)
            limit = chance.uniform(0, seconds) if tally.kills < kills else None
            code, where = run(arguments, log, limit)
            if code is None:
                # A process that is done may be killed while it tidies up.
                lost = command.kept(place)[: len(before)] != before
                tally.lost += lost and command.outcome(place) != wanted
                tally.kills += 1
                killed_runs += 1
                tally.phases[where] += 1
            elif code:
                sys.exit(f"{command.name} {' '.join(arguments)} fails after a kill:\n{log.read_text()}")
            else:
                break
        tally.runs += 1
        tally.wrong += command.outcome(place) != wanted
        around = [place, *place.rglob("*"), *place.parent.glob(f".{place.name}*")]
        tally.left += sum(path.name.endswith((".tmp", ".new", ".packing")) for path in around)
    return tally


def timeless(line: str) -> dict[str, object]:
    """Returns a record without what a clock says, also in the objects it holds."""
    return _timeless(json.loads(line))


def _timeless(record: dict[str, object]) -> dict[str, object]:
    told = {name: value for name, value in record.items() if name not in TIMINGS and name != "curve"}
    return {name: _timeless(value) if isinstance(value, dict) else value for name, value in told.items()}


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def warm_up(*every: list[str]) -> None:
    """Runs commands in this process: what they import the first time takes longer than the work, and forks have it."""
    for arguments in every:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as told:
            if main(arguments):
                sys.exit(f"{' '.join(arguments)} fails: {told.getvalue()}")


def commands(folder: Path, scale: int) -> list[Killed]:
    """Returns what can be killed, on a made-up graph that grows with the scale; a new command needs one entry."""
    headtail.serving.parts.HEADS_PER_PART = 16  # so that there are many
    data = folder / "links.csv"
    chance = np.random.default_rng(0)
    links = pd.DataFrame(chance.integers(60 * scale, size=(600 * scale, 2)), columns=["source", "target"])
    links[links.source != links.target].drop_duplicates().to_csv(data, index=False)
    small = ["--preset", "fast", "--structure", "8", "--links-per-batch", "512", "--eval-negatives", "200"]
    small += ["--device", "cpu"]
    train = ["train", str(data), *small, "--hidden", str(32 * scale), "--epochs", "8"]
    model = folder / "model"
    warm_up([*train, "--out", str(model)], ["recommend", str(model), "--device", "cpu", "--out", str(folder / "a.csv")])

    def trained(out: Path) -> object:
        files = [bytes_of(out / name) for name in ("model.safetensors", "answers.json")]
        return [timeless(line) for line in lines_of(out / "metrics.jsonl")], files

    def train_again(out: Path) -> list[str]:
        begun = (out / "config.yaml").is_file()
        return [*train, "--out", str(out), *(["--resume"] if begun else [])]

    def epochs(out: Path) -> list[str]:
        return [line for line in lines_of(out / "metrics.jsonl") if "loss" in json.loads(line)]

    paper = ["paper", "smlp", "--data", str(data), *small, "--repeats", "2", "--epochs", "2", "--hidden", "16"]

    def table(out: Path) -> object:
        results = sorted(json.dumps(timeless(line)) for line in lines_of(out / "results.jsonl"))
        return results, bytes_of(out / "smlp.md")

    features = folder / "x.npy"
    nodes = folder / "nodes.csv"
    pd.DataFrame({"id": np.arange(60 * scale)}).to_csv(nodes, index=False)
    np.save(features, chance.normal(size=(60 * scale, 256)).astype(np.float32))
    # Not warmed up: forks of a process that has its threads would wait for them.
    pack = ["data", "pack", str(data), "--features", str(features), "--nodes", str(nodes), "--memory", "0.2"]

    def packed(out: Path) -> object:
        return {path.name: file_digest(path) for path in sorted(out.rglob("*")) if path.is_file()}

    def stages(out: Path) -> list[str]:
        """Stages in the order in which they end, while there is no store; then it is all there is."""
        if out.is_dir():
            return list(STAGES)
        records = list(out.parent.glob(f".{out.name}*/finished-stages.json"))
        return list(json.loads(records[0].read_text())["stages"]) if records else []

    return [
        Killed("train", lambda out: [*train, "--out", str(out)], trained, epochs, train_again),
        Killed(
            "recommend",
            lambda out: ["recommend", str(model), "-k", "10", "--device", "cpu", "--out", str(out / "links.parquet")],
            lambda out: bytes_of(out / "links.parquet"),
            lambda out: [file_digest(part) for part in sorted(out.glob(".links.parquet.parts/0*.parquet"))],
        ),
        Killed(
            "paper",
            lambda out: [*paper, "--out", str(out)],
            table,
            lambda out: lines_of(out / "results.jsonl"),
        ),
        Killed(
            "data pack",
            lambda out: [*pack, "-o", str(out)],
            packed,
            stages,
            lambda out: [*pack, "-o", str(out), *(["--overwrite"] if out.is_dir() else [])],
        ),
    ]


def start() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30, help="kills of every command")
    parser.add_argument("--commands", default="", help="names of commands, with commas; all by default")
    parser.add_argument("--scale", type=int, default=8, help="how large graph and model are")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chosen = arguments.commands.split(",") if arguments.commands else []
    failed = False
    print("| command | kills | runs ended | differ from uninterrupted | finished parts lost | files left | hit amid |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for command in commands(Path(folder), arguments.scale):
            if not chosen or command.name in chosen:
                tally = try_out(command, arguments.kills, Path(folder), random.Random(arguments.seed))
                hit = ", ".join(f"{what} {count}" for what, count in tally.phases.most_common())
                counts = (tally.kills, tally.runs, tally.wrong, tally.lost, tally.left)
                print(f"| {command.name} | {' | '.join(map(str, counts))} | {hit} |", flush=True)
                failed = failed or bool(tally.wrong or tally.lost or tally.left)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    start()
