"""Measures what ranks share beside training: pre-encoding and the encoding of all nodes, on a synthetic graph.

    python scripts/measure_shares.py
    torchrun --nproc-per-node 2 scripts/measure_shares.py
    python scripts/measure_shares.py --deal debian    # how uneven the links of ranks are in training

Prints a line of JSON: seconds of each part by the clock, and of the processor on the rank that took most. On a machine
with other work the second says more: it counts the exchange too, but not what others made a rank wait for.
"""

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import torch

from headtail import load
from headtail.graph.csr import CSR
from headtail.graph.message import MessageGraph
from headtail.graph.view import GraphView
from headtail.memory import keep_freed_memory
from headtail.nn.models import MODELS, ModelShape
from headtail.ranks import Ranks, joined
from headtail.sampling.batches import RowBatches


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


def deal(data: str, links_per_batch: int) -> None:
    """Prints how many times its fair share of links the rank has that has most, for some numbers of ranks."""
    graph = load(data)
    rows = CSR.from_links(graph.links, graph.num_nodes)
    batches = RowBatches(rows, links_per_batch)
    for size in (2, 4, 8):
        found = []
        for seed in range(3):
            for items in batches.order(torch.Generator().manual_seed(seed)).tensor_split(len(batches)):
                links = [int(rows.degrees[share].sum()) for share in items.tensor_split(size)]
                found.append(max(links) * size / max(1, sum(links)))
        mean, most = float(np.mean(found)), max(found)
        print(f"{size} ranks, batches of {links_per_batch:,}: {mean:.3f} on average, {most:.3f} at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--links", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=128, help="of the features")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--statistics", default="graph", choices=["graph", "running"])
    parser.add_argument("--deal", metavar="DATA", help="measure shares of links in training on this graph instead")
    parser.add_argument("--links-per-batch", type=int, default=8192)
    a = parser.parse_args()
    if a.deal is not None:
        deal(a.deal, a.links_per_batch)
        return
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
            json.dumps(
                {
                    "ranks": ranks.size,
                    "nodes": a.nodes,
                    "links": a.links,
                    "pre_encoding": pre_encoding,
                    "heads": heads,
                    "tails": tails,
                }
            )
        )


if __name__ == "__main__":
    main()
