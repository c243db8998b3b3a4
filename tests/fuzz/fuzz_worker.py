"""A process with a hard memory limit that damages files and reads them, one case per line that it is sent.

Started by `fuzz_pool`: `python fuzz_worker.py CORPUS SEED SPARE_BYTES`. It answers every number on its standard input
by one line of JSON.
"""

import json
import os
import random
import resource
import shutil
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from reader_targets import Target, graph_targets, mutations_for
from run_targets import run_targets

LONGEST_SENTENCE = 2_000


@dataclass(frozen=True)
class Outcome:
    """What became of one damaged file.

    Attributes:
        result: accepted, refused, or failed.
        detail: the sentence or what went wrong.
        grown: bytes that the process held at most, beyond what it held before.
    """

    case: int
    reader: str
    file: str
    mutations: list[str]
    result: str
    detail: str
    seconds: float
    grown: int


def targets() -> list[Target]:
    return [*graph_targets(), *run_targets()]


def make_corpus(folder: Path) -> None:
    """Writes a valid input of every reader, once."""
    for target in targets():
        (folder / target.name).mkdir(parents=True)
        target.seed(folder / target.name)


def damage(corpus: Path, place: Path, seed: int, case: int) -> tuple[Target, str, list[str]]:
    """Copies the valid input of a reader to `place` and damages one file of it; the same for the same numbers."""
    rng = random.Random(f"{seed}/{case}")
    readers = targets()
    target = readers[case % len(readers)]
    shutil.copytree(corpus / target.name, place)
    file = rng.choice(target.spoil)
    known = mutations_for(file)
    chosen: list[str] = []
    content = (place / file).read_bytes()
    for _ in range(rng.choice((1, 1, 2, 3))):
        # Those that know the format are rarer than they are telling.
        suited = sorted(set(known) - set(mutations_for("unknown"))) or sorted(known)
        name = rng.choice(suited if rng.random() < 0.5 else sorted(known))
        try:
            content = known[name](rng, content)
        except Exception:  # damaged too much already for a mutation that has to understand it
            continue
        chosen.append(name)
    (place / file).write_bytes(content)
    return target, file, chosen


def judge(target: Target, place: Path) -> tuple[str, str]:
    """Reads damaged input: it must be accepted in silence, or refused in one short line."""
    try:
        answer = target.read(place)
    except BaseException:
        return "failed", traceback.format_exc()
    if "Traceback" in answer.err or "Warning" in answer.err:
        return "failed", f"noise: {answer.err}"
    if answer.code == 0:
        return "accepted", ""
    sentence = answer.err.rstrip("\n").split("error: ", 1)[-1]
    if len(sentence) > LONGEST_SENTENCE or not sentence.isprintable() or not sentence:
        return "failed", f"no sentence ({len(sentence)} characters): {sentence[:3000]!r}"
    return "refused", sentence


def memory(kind: str) -> int:
    """Returns VmSize, VmRSS or VmHWM of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) * 1024


def run_case(corpus: Path, place: Path, seed: int, case: int) -> Outcome:
    target, file, mutations = damage(corpus, place, seed, case)
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
    before, start = memory("VmRSS"), time.perf_counter()
    result, detail = judge(target, place)
    seconds, grown = time.perf_counter() - start, memory("VmHWM") - before
    return Outcome(case, target.name, file, mutations, result, detail, seconds, grown)


def main() -> None:
    corpus, seed, spare = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    for target in targets():  # threads, imports and caches are there before memory is limited
        answer = target.read(corpus / "warm" / target.name)
        assert answer.code == 0, f"{target.name}: {answer.err}"
    limit = memory("VmSize") + spare
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        case, place = line.rstrip("\n").split(" ", 1)
        print(json.dumps(asdict(run_case(corpus / "valid", Path(place), seed, int(case)))), file=answers, flush=True)


if __name__ == "__main__":
    main()
