"""Measures what ranks share beside training: pre-encoding and the encoding of all nodes, on a synthetic graph.

    python scripts/measure_shares.py
    torchrun --nproc-per-node 2 scripts/measure_shares.py

Prints a line of JSON: seconds of each part by the clock, and of the processor on the rank that took most. On a machine
with other work the second says more: it counts the exchange too, but not what others made a rank wait for.
"""

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import torch

from headtail.graph.message import MessageGraph
from headtail.graph.view import GraphView
from headtail.memory import keep_freed_memory
from headtail.nn.models import MODELS, ModelShape
from headtail.ranks import Ranks, joined


def make_view(nodes: int, links: int) -> GraphView:
    """Returns links whose ends crowd at low numbers, so that degrees are uneven."""
    ends = (np.random.default_rng(0).random((2, links)) ** 2 * nodes).astype(np.int64)
    return GraphView(nodes, True, torch.from_numpy(ends[:, ends[0] != ends[1]]))


def timed(ranks: Ranks, work: Callable[[], object], repeats: int) -> dict[str, float]:
    """Returns the least seconds of some repeats, of the slowest rank."""
    found = []
    for _ in range(repeats):
        ranks.sum(torch.zeros(()))  # all begin together
        start, spent = time.perf_counter(), time.process_time()
        work()
        found.append([time.perf_counter() - start, time.process_time() - spent])
    seconds = ranks.each(torch.tensor(found).min(dim=0).values).max(dim=0).values
    return {"seconds": round(float(seconds[0]), 2), "processor": round(float(seconds[1]), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--links", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=128, help="of the features")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--statistics", default="graph", choices=["graph", "running"])
    a = parser.parse_args()
    keep_freed_memory()
    features = torch.randn(a.nodes, a.columns, generator=torch.Generator().manual_seed(0))
    shape = ModelShape(a.columns, a.hidden, a.layers, norm_statistics=a.statistics)
    with joined("cpu") as ranks, torch.no_grad():
        graph = MessageGraph.build(make_view(a.nodes, a.links), features, "row", a.layers, ranks=ranks)
        torch.manual_seed(0)
        model = MODELS["aml"](shape).eval()
        pre_encoding = timed(ranks, lambda: (graph.__dict__.pop("pre_encoded", None), graph.prepare()), a.repeats)
        heads = timed(ranks, lambda: model.head.encode_all(graph, ranks), a.repeats)
        tails = timed(ranks, lambda: model.tail.encode_all(graph, model.head.convolutions, ranks), a.repeats)
    if ranks.leads:
        print(
            json.dumps({"ranks": ranks.size, **vars(a), "pre_encoding": pre_encoding, "heads": heads, "tails": tails})
        )


if __name__ == "__main__":
    main()
