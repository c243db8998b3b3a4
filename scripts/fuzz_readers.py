"""Damages small valid files in ten thousand ways and lets every reader try them; prints a table by reader.

Each case is read in a process with little memory to spare and a time limit. It must be accepted, or refused with one
sentence; a traceback, a crash, a hang or a longer answer is a failure, and its files are kept.

    python scripts/fuzz_readers.py --count 10000 --seed 0
    python scripts/fuzz_readers.py --only 1234            one case again
"""

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "fuzz"))

from fuzz_pool import SPARE_BYTES, Outcome, fuzz, limit_memory

OWN_BYTES = 4 << 30
RESULTS = ("accepted", "refused", "failed")


def table(outcomes: list[Outcome]) -> str:
    """Returns readers × outcomes as Markdown, with the longest time and the most memory of a case."""
    by_reader: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_reader[outcome.case.reader].append(outcome)
    lines = ["| reader | tried | accepted | refused | failed | longest, CPU s | most memory, MB |", "|---" * 7 + "|"]
    for name, part in [*sorted(by_reader.items()), ("**all**", outcomes)]:
        counts = Counter(outcome.reading.result for outcome in part)
        longest, most = max(one.reading.seconds for one in part), max(one.reading.grown for one in part) / 1e6
        cells = [
            name,
            f"{len(part):,}",
            *(f"{counts[result]:,}" for result in RESULTS),
            f"{longest:.2f}",
            f"{most:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def tell(outcome: Outcome, folder: Path) -> None:
    """Says what a case was and what became of it."""
    case, kept = outcome.case, folder / "failed" / str(outcome.case.number)
    done = " + ".join(case.mutations)
    print(f"case {case.number}: {case.reader}, {case.file}, {done}: {outcome.reading.result}; files: {kept}")
    print(outcome.reading.detail.rstrip(), end="\n\n", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--seconds", type=float, default=20.0, help="processor time a case may take")
    parser.add_argument("--spare", type=int, default=SPARE_BYTES >> 20, help="memory a case may take, MiB")
    parser.add_argument("--only", type=int, help="run this case alone, and keep its files")
    parser.add_argument("--folder", type=Path, help="where files of failures stay (default: a new temporary folder)")
    options = parser.parse_args()
    limit_memory(OWN_BYTES)  # whatever goes wrong here must not cost others their memory
    folder = options.folder or Path(tempfile.mkdtemp(prefix="fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    cases = range(options.count) if options.only is None else range(options.only, options.only + 1)
    start = time.perf_counter()
    outcomes = []
    for outcome in fuzz(cases, options.seed, folder, options.jobs, options.seconds, options.spare << 20):
        outcomes.append(outcome)
        if outcome.reading.result == "failed" or options.only is not None:
            tell(outcome, folder)
        if len(outcomes) % 1000 == 0:
            print(f"{len(outcomes):,} cases, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    outcomes.sort(key=lambda outcome: outcome.case.number)
    print(table(outcomes))
    print(f"\n{len(outcomes):,} cases in {time.perf_counter() - start:.0f} s; {options.spare} MiB to spare, {folder}")
    return int(any(outcome.reading.result == "failed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
