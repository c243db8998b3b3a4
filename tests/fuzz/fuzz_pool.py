"""Sends cases to processes that may crash, hang or run out of memory, and collects what became of them."""

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from fuzz_worker import Outcome, make_corpus, targets

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
SPARE_BYTES = 1 << 30
START_SECONDS = 300.0


@dataclass
class Worker:
    """One process, started again whenever it is lost."""

    corpus: Path
    seed: int
    seconds: float
    log: Path
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    def run(self, case: int, place: Path) -> Outcome:
        """Runs one case; a process that dies or takes too long is that case's failure."""
        process = self.process = self.process or self._start()
        assert process.stdin is not None
        process.stdin.write(f"{case} {place}\n".encode())
        process.stdin.flush()
        line = self._line(self.seconds)
        if line:
            return Outcome(**json.loads(line))
        self.stop()
        reader = targets()[case % len(targets())].name
        what = f"no answer within {self.seconds:g} s" if process.returncode == -9 else "the process died"
        return Outcome(case, reader, "", [], "failed", f"{what} ({process.returncode})", self.seconds, 0)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _start(self) -> "subprocess.Popen[bytes]":
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join((str(SOURCE), str(HERE))),
            "OMP_NUM_THREADS": "1",
            "ARROW_NUM_THREADS": "1",
            "PYTHONWARNINGS": "default",
        }
        command = [sys.executable, str(HERE / "fuzz_worker.py"), str(self.corpus), str(self.seed), str(SPARE_BYTES)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment
            )
        if not self._line(START_SECONDS):
            raise RuntimeError(f"a worker did not start; see {self.log}")
        return self.process

    def _line(self, seconds: float) -> bytes:
        """Returns the next line of the process, nothing if it dies or is silent for so long."""
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return self.process.stdout.readline() if ready else b""


def fuzz(cases: range, seed: int, folder: Path, jobs: int = 1, seconds: float = 20.0) -> Iterator[Outcome]:
    """Yields what became of every case; the files of those that failed stay in `folder`/failed."""
    corpus = folder / "corpus"
    for copy in ("valid", "warm"):  # a reader may write where it read
        if copy == "valid":
            make_corpus(corpus / copy)
        else:
            shutil.copytree(corpus / "valid", corpus / copy)
    (folder / "failed").mkdir(exist_ok=True)
    workers = [Worker(corpus, seed, seconds, folder / f"worker{number}.log") for number in range(jobs)]

    def share(number: int) -> Iterator[Outcome]:
        for case in cases[number::jobs]:
            place = folder / "failed" / str(case)
            outcome = workers[number].run(case, place)
            if outcome.result != "failed":
                shutil.rmtree(place, ignore_errors=True)
            yield outcome

    try:
        with ThreadPoolExecutor(jobs) as pool:
            for outcomes in pool.map(lambda number: list(share(number)), range(jobs)):
                yield from outcomes
    finally:
        for worker in workers:
            worker.stop()
