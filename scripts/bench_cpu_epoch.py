"""Times epochs of the `paper` preset on the CPU: warm-up, then the median, with sampling alone beside it.

python scripts/bench_cpu_epoch.py DATA.npz [--epochs 3] [--preset paper]
"""

import argparse
import statistics
import time

import torch

from headtail import load
from headtail.config import make_config
from headtail.graph.task import make_task
from headtail.training.observer import Observer
from headtail.training.trainer import GnnMethod


class Times(Observer):
    """Collects the seconds of every epoch."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def epoch_done(self, record: dict[str, float]) -> None:  # type: ignore[override]
        self.seconds.append(record["seconds"])
        print(
            f"epoch {record['epoch']}: {record['seconds']:.1f} s, {record['links_per_second']:,.0f} links/s", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=3, help="timed epochs, after one to warm up")
    parser.add_argument("--preset", default="paper")
    options = parser.parse_args()
    settings = {"device": "cpu", "epochs": options.epochs + 1}
    config = make_config(options.preset, settings=settings)
    method = GnnMethod.create(make_task(load(options.data), config), config)
    times = Times()
    method.fit(None, times)
    sampler = method.batches()
    start = time.perf_counter()
    batches = sum(1 for _ in sampler.epoch(torch.Generator().manual_seed(0)))
    sampling = time.perf_counter() - start
    print(f"median of {options.epochs}: {statistics.median(times.seconds[1:]):.1f} s/epoch in {batches} batches")
    print(f"sampling alone: {sampling:.1f} s; threads: {torch.get_num_threads()}; torch {torch.__version__}")


if __name__ == "__main__":
    main()
