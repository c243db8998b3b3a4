"""Times every heuristic on the validation and test links of a graph, and prints how well it ranks them.

    python scripts/bench_heuristics.py DATA.npz [--test-graph train+valid]

Prints a Markdown table. Seconds include everything after the split was made: building the rows, scoring, ranking.
CPU seconds tell the work from the waiting on a machine that others use too.
"""

import argparse
import time

from headtail import load
from headtail.baselines.heuristics import HEURISTICS
from headtail.config import make_config
from headtail.evaluation.evaluator import evaluate
from headtail.graph.graph import HeldOut
from headtail.graph.task import ProvenSplit, prove_split
from headtail.graph.view import GraphView


def pairs_of(part: HeldOut, metric: str) -> int:
    """Counts the pairs that are scored: negatives are tails for mrr, pairs for hits@K."""
    assert part.negatives is not None
    negatives = part.negatives.numel() if metric == "mrr" else part.negatives.shape[1]
    return part.positives.shape[1] + negatives


def measure(name: str, proven: ProvenSplit) -> tuple[float, float, float, float]:
    """Returns seconds, CPU seconds, and the metric in % on test and on validation links."""
    start, cpu_start = time.perf_counter(), time.process_time()
    values = []
    for view, part in ((proven.test_view, proven.split.test), (proven.train_view, proven.split.valid)):
        assert part.negatives is not None
        # A view of its own, so that no heuristic finds rows that an earlier one has built.
        fresh = GraphView(view.num_nodes, view.directed, view.links)
        found = evaluate(HEURISTICS[name]().scorer(fresh), part.positives, part.negatives, proven.metric)
        values.append(100 * found[proven.metric])
    return time.perf_counter() - start, time.process_time() - cpu_start, values[0], values[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--test-graph", choices=["train", "train+valid"], default="train")
    options = parser.parse_args()
    proven = prove_split(load(options.data), make_config(settings={"test_graph": options.test_graph}))
    pairs = sum(pairs_of(part, proven.metric) for part in (proven.split.valid, proven.split.test))
    print(f"| heuristic | pairs | s | CPU s | test {proven.metric} % | valid {proven.metric} % |")
    print("|---|---|---|---|---|---|")
    total, total_cpu = 0.0, 0.0
    for name in HEURISTICS:
        seconds, cpu, test, valid = measure(name, proven)
        total, total_cpu = total + seconds, total_cpu + cpu
        print(f"| {name} | {pairs:,} | {seconds:.2f} | {cpu:.2f} | {test:.2f} | {valid:.2f} |", flush=True)
    print(f"| all | | {total:.2f} | {total_cpu:.2f} | | |")


if __name__ == "__main__":
    main()
