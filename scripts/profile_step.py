"""Times recorded training on a GPU, alone and beside drawing, and lists the kernels of both.

    python scripts/profile_step.py citation2 kernels.txt        # or collab, ppa, NODES,LINKS, or a graph as npz

Prints milliseconds a step over whole epochs, of the recorded steps alone, and of the recorded draw alone.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from headtail import load
from headtail.experiments.bench import bench_config, bench_graph, scale_named
from headtail.experiments.phases import device_ms
from headtail.experiments.variants import variant_named
from headtail.graph.task import make_task
from headtail.methods import make_method
from headtail.training.captured import CapturedStep
from headtail.training.recorded import RecordedBatches
from headtail.training.trainer import GnnMethod

EPOCHS, REPEATS = 3, 5


def kernels(work: Callable[[], object]) -> list[str]:
    """Returns the kernels of some work, the longest first: microseconds, how often, name."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(REPEATS):
            work()
        torch.cuda.synchronize()
    found = sorted(seen.key_averages(), key=lambda kernel: -kernel.device_time_total)
    total = sum(kernel.device_time_total for kernel in found) / REPEATS
    listed = [f"{k.device_time_total / REPEATS:9.1f} {k.count / REPEATS:6.1f} {k.key[:120]}" for k in found]
    return [f"{total:9.1f} us in {sum(kernel.count for kernel in found) / REPEATS:.0f} kernels", *listed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="a scale of `headtail bench`, or a file")
    parser.add_argument("out", type=Path, help="where the kernels are listed")
    parser.add_argument("--method", default="aml")
    given = parser.parse_args()
    scale = None if given.graph.endswith(".npz") else scale_named(given.graph)
    graph = load(Path(given.graph)) if scale is None else bench_graph(scale)
    config = bench_config(variant_named(given.method), scale, {"device": "cuda", "epochs": EPOCHS + 1})
    method = make_method(make_task(graph, config), config)
    assert isinstance(method, GnnMethod)
    batches, step = method.batches(), method.step(method.optimizer())
    assert isinstance(batches, RecordedBatches)
    assert isinstance(step, CapturedStep)
    method.model.train()

    def epoch(seed: int) -> float:
        torch.cuda.synchronize()
        start, steps = time.perf_counter(), 0
        for batch in batches.epoch(torch.Generator(device="cuda").manual_seed(seed)):
            step(batch)
            steps += 1
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start) / steps

    epoch(0)
    together = [epoch(seed) for seed in range(1, EPOCHS + 1)]
    plays = [recording.play for recording in step._recordings.values() if recording.play is not None]
    print(f"{given.graph}: {len(batches)} steps, sizes {[sizes.positives for sizes in batches.sizes]}")
    print(f"  ms a step, epochs: {', '.join(f'{ms:.2f}' for ms in together)}; median {statistics.median(together):.2f}")
    print(f"  ms a step, recorded steps alone: {', '.join(f'{device_ms(play):.2f}' for play in plays)}")
    print(f"  ms a draw, alone: {device_ms(batches.draw_again):.2f}; batches that did not fit: {batches.misfits}")
    lines = ["a step", *kernels(plays[0]), "", "a draw", *kernels(batches.draw_again)]
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
