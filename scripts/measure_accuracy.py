"""Measures the `paper` preset on real splits and writes the table of docs/results.md.

    python scripts/measure_accuracy.py DATA_FOLDER --out docs/accuracy.json [--device cuda] [--seeds 3]

DATA_FOLDER holds metamath.npz, debian.npz and acl-collab.npz in the npz split layout (docs/reference.md).
One JSON line per finished run is appended to --out, so an interruption loses at most the run in progress.
"""

import argparse
import json
import platform
import statistics
from datetime import date
from pathlib import Path

import torch

from headtail import LinkPredictor, load
from headtail.training.observer import Observer

# data set: settings beyond the preset, the authors' code on the same split (one run)
RUNS: dict[str, tuple[dict[str, object], str]] = {
    "metamath": ({"epochs": 25}, "80.52"),
    "debian": ({"epochs": 50}, "60.01"),
    "acl-collab": ({"epochs": 100, "test_graph": "train+valid"}, "13.1 – 13.9"),
}


def measure(folder: Path, name: str, seed: int, device: str) -> dict[str, object]:
    settings, _ = RUNS[name]
    predictor = LinkPredictor(preset="paper", seed=seed, device=device, **settings)
    predictor.fit(load(folder / f"{name}.npz"), observer=Observer())
    result = predictor.evaluate(heads_sampled=0)
    seconds = [record["seconds"] for record in predictor.history]
    return {
        "data": name,
        "seed": seed,
        "metric": result["metric"],
        "test": 100 * result[result["metric"]],
        "valid": 100 * predictor.history[result["best_epoch"] - 1][f"valid_{result['metric']}"],
        "best_epoch": result["best_epoch"],
        "epochs": result["epochs"],
        "seconds_per_epoch": statistics.median(seconds),
        "per_epoch": result["per_epoch"],
        "machine": torch.cuda.get_device_name()
        if torch.cuda.is_available() and device != "cpu"
        else platform.machine(),
        "torch": torch.__version__,
        "date": date.today().isoformat(),
    }


def table(lines: list[dict[str, object]]) -> str:
    rows = [
        "| data | metric | test, mean ± std (seeds) | authors' code, one run | s/epoch, median |",
        "|---|---|---|---|---|",
    ]
    for name, (_, authors) in RUNS.items():
        runs = [line for line in lines if line["data"] == name]
        if runs:
            values = [float(str(run["test"])) for run in runs]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            seconds = statistics.median(float(str(run["seconds_per_epoch"])) for run in runs)
            single = ", ".join(f"{value:.2f}" for value in values)
            rows.append(
                f"| {name} | {runs[0]['metric']} | {statistics.mean(values):.2f} ± {spread:.2f} ({single}) "
                f"| {authors} | {seconds:.2f} |"
            )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/accuracy.jsonl"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", nargs="*", choices=list(RUNS), default=list(RUNS))
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {(line["data"], line["seed"]) for line in lines}
    for seed in range(options.seeds):
        for name in options.data:
            if (name, seed) not in done:
                line = measure(options.folder, name, seed, options.device)
                print(json.dumps(line), flush=True)
                with options.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                lines.append(line)
    print(table(lines))


if __name__ == "__main__":
    main()
