"""Compares the accuracy of one process with that of several ranks over seeds, and writes a table.

    python scripts/compare_ranks.py debian --ranks 1,2 --seeds 3 -- --preset fast --epochs 6

What follows `--` goes to `headtail train`. The batch is the same whatever the number of ranks: each takes its share.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def train(data: str, ranks: int, seed: int, options: list[str], folder: Path) -> dict[str, object]:
    """Trains once and returns the result."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    out = folder / f"{ranks}-{seed}"
    command = [sys.executable, *launcher, "-m", "headtail", "train", data, "--out", str(out), "--seed", str(seed)]
    start = time.perf_counter()
    # One thread for each rank, also for one: what differs is the number of ranks alone.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *options, "--json"], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    result: dict[str, object] = json.loads(done.stdout[done.stdout.index("{") :])
    metric = str(result["metric"])
    return {
        "data": Path(data).name,
        "ranks": ranks,
        "seed": seed,
        "metric": metric,
        "test": result[metric],
        "train_seconds": result["train_seconds"],
        "seconds": time.perf_counter() - start,
        "options": " ".join(options),
    }


def main() -> None:
    own, options = split_arguments(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--ranks", default="1,2", help="numbers of ranks, with commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="adds a line of JSON for every run")
    arguments = parser.parse_args(own)
    sizes = [int(size) for size in arguments.ranks.split(",")]
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    found: dict[int, list[dict[str, object]]] = {size: [] for size in sizes}
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            for size in sizes:
                result = train(arguments.data, size, seed, options, Path(folder))
                found[size].append(result)
                print(json.dumps(result), file=sys.stderr, flush=True)
                if arguments.out:
                    with arguments.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(result) + "\n")
    print(f"| ranks | {', '.join(f'seed {seed}' for seed in seeds)} | mean ± sd | s of training |")
    print("|---|---|---|---|")
    for size, results in found.items():
        values = [100 * float(str(result["test"])) for result in results]
        spread = f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}" if len(values) > 1 else "–"
        seconds = statistics.median(float(str(result["train_seconds"])) for result in results)
        print(f"| {size} | {', '.join(f'{value:.2f}' for value in values)} | {spread} | {seconds:.0f} |")


def split_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Returns our own arguments, and those for `headtail train`."""
    place = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:place], arguments[place + 1 :]


if __name__ == "__main__":
    main()
