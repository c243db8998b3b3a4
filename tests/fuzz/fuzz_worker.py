"""A process with a hard memory limit that reads damaged files, one case per line that it is sent.

Started by `fuzz_pool`: `python fuzz_worker.py WARM SPARE_BYTES`, WARM being a folder of valid input for every reader.
It answers every "READER FOLDER" on its standard input by one line of JSON.
"""

import json
import os
import resource
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from reader_targets import Target, graph_targets
from run_targets import run_targets

LONGEST_SENTENCE = 2_000


@dataclass(frozen=True)
class Reading:
    """What became of damaged input.

    Attributes:
        result: accepted, refused, or failed.
        detail: the sentence, or what went wrong.
        seconds: of processor time, which a busy machine does not stretch.
        grown: bytes that the process held at most, beyond what it held before.
    """

    result: str
    detail: str
    seconds: float
    grown: int


def targets() -> list[Target]:
    return [*graph_targets(), *run_targets()]


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


def timed(target: Target, place: Path) -> Reading:
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
    before, start = memory("VmRSS"), time.process_time()
    result, detail = judge(target, place)
    return Reading(result, detail, time.process_time() - start, memory("VmHWM") - before)


def main() -> None:
    warm, spare = Path(sys.argv[1]), int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    readers = targets()
    for target in readers:  # threads, imports and caches are there before memory is limited
        answer = target.read(warm / target.name)
        assert answer.code == 0, f"{target.name}: {answer.err}"
    limit = memory("VmSize") + spare
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        number, place = line.rstrip("\n").split(" ", 1)
        print(json.dumps(asdict(timed(readers[int(number)], Path(place)))), file=answers, flush=True)


if __name__ == "__main__":
    main()
