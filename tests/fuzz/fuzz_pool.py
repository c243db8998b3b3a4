"""Damages files, and sends them to processes that may crash, hang or run out of memory, and are started again."""

import json
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from fuzz_worker import Reading, targets
from reader_targets import TEXT, mutations_for

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
SPARE_BYTES = 512 << 20
# A process that waits for ever uses no processor time.
SILENT_SECONDS = 600.0
# What damages files must understand some of them, and a bomb would unpack in its hands: after these comes no other.
LAST = {"text_bomb", "repeated_strings"}


@dataclass(frozen=True)
class Case:
    """Damaged input: which reader it is for (by number and name), and what was done to which file."""

    number: int
    target: int
    reader: str
    file: str
    mutations: list[str]


@dataclass(frozen=True)
class Outcome:
    """A case and what became of it."""

    case: Case
    reading: Reading


def limit_memory(spare: int) -> None:
    """Lets this process and those it starts take so much more memory, and no more."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + spare
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def make_corpus(folder: Path) -> None:
    """Writes a valid input of every reader, twice: one to damage copies of, one to warm up with."""
    for target in targets():
        (folder / "valid" / target.name).mkdir(parents=True)
        target.seed(folder / "valid" / target.name)
    shutil.copytree(folder / "valid", folder / "warm")  # a reader may write where it read


def damage(corpus: Path, place: Path, seed: int, number: int) -> Case:
    """Copies the valid input of a reader to `place` and damages one file of it; the same for the same numbers."""
    rng, readers = random.Random(f"{seed}/{number}"), targets()
    target = readers[number % len(readers)]
    shutil.copytree(corpus / "valid" / target.name, place)
    file = rng.choice(target.spoil)
    known = mutations_for(file)
    # Those that know the format are rarer than they are telling.
    suited = sorted(set(known) - set(mutations_for("unknown"))) or sorted(TEXT)
    chosen: list[str] = []
    content = (place / file).read_bytes()
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice(suited if rng.random() < 0.5 else sorted(known))
        try:
            content = known[name](rng, content)
        except Exception:  # damaged too much already for a mutation that has to understand it
            continue
        chosen.append(name)
        if name in LAST:
            break
    (place / file).write_bytes(content)
    return Case(number, number % len(readers), target.name, file, chosen)


class Worker:
    """One process, started again whenever it is lost."""

    def __init__(self, warm: Path, seconds: float, spare: int, log: Path) -> None:
        self.warm, self.seconds, self.spare, self.log = warm, seconds, spare, log
        self.process: subprocess.Popen[bytes] | None = None

    def read(self, case: Case, place: Path) -> Reading:
        """Reads damaged input; a process that dies or takes too long is a failure of the case."""
        process = self.process = self.process or self._start()
        assert process.stdin is not None
        process.stdin.write(f"{case.target} {place}\n".encode())
        process.stdin.flush()
        line = self._line(_processor_seconds(process.pid) + self.seconds)
        if line:
            return Reading(**json.loads(line))
        silent = process.poll() is None
        self.stop()
        what = f"no answer within {self.seconds:g} s" if silent else f"the process died ({process.returncode})"
        return Reading("failed", what, self.seconds, 0)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _start(self) -> "subprocess.Popen[bytes]":
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join((str(SOURCE), str(HERE))),
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "default",
        }
        command = [sys.executable, str(HERE / "fuzz_worker.py"), str(self.warm), str(self.spare)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment
            )
        if not self._line(SILENT_SECONDS):
            raise RuntimeError(f"a worker did not start; see {self.log}")
        return self.process

    def _line(self, most_seconds: float) -> bytes:
        """Returns the next line of the process, nothing if it dies or has used so much processor time before."""
        process = self.process
        assert process is not None
        assert process.stdout is not None
        end = time.monotonic() + SILENT_SECONDS
        while not select.select([process.stdout], [], [], 0.5)[0]:
            if _processor_seconds(process.pid) > most_seconds or time.monotonic() > end:
                return b""
        return process.stdout.readline()


def _processor_seconds(process: int) -> float:
    """Returns the processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fuzz(
    numbers: range, seed: int, folder: Path, jobs: int = 1, seconds: float = 20.0, spare: int = SPARE_BYTES
) -> Iterator[Outcome]:
    """Yields what became of every case; the files of those that failed stay in `folder`/failed."""
    make_corpus(folder / "corpus")
    (folder / "failed").mkdir()
    remaining = iter(numbers)  # not dealt beforehand: every second case is for the same ten readers
    workers = [Worker(folder / "corpus" / "warm", seconds, spare, folder / f"worker{job}.log") for job in range(jobs)]

    def share(job: int) -> None:
        try:
            for number in remaining:
                place = folder / "failed" / str(number)
                case = damage(folder / "corpus", place, seed, number)
                outcome = Outcome(case, workers[job].read(case, place))
                if outcome.reading.result != "failed":
                    shutil.rmtree(place)
                found.put(outcome)
        finally:
            workers[job].stop()
            found.put(None)

    found: SimpleQueue[Outcome | None] = SimpleQueue()
    with ThreadPoolExecutor(jobs) as pool:
        ended = [pool.submit(share, job) for job in range(jobs)]
        for _ in range(jobs):
            yield from iter(found.get, None)
        for job in ended:
            job.result()
