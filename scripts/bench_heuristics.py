"""Times every heuristic on the validation and test links of a graph, and prints how well it ranks them.

    python scripts/bench_heuristics.py DATA.npz [--test-graph train+valid]
    python scripts/bench_heuristics.py DATA/ogbl-ddi.npz --ra-variants

Prints a Markdown table. Seconds include everything after the split was made: building the rows, scoring, ranking.
CPU seconds tell the work from the waiting on a machine that others use too. `--ra-variants` asks instead what
resource allocation would score if it were defined otherwise; it multiplies dense matrices, for small graphs only.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

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


Dense = NDArray[np.float64]


def inverse(values: Dense) -> Dense:
    """Returns 1 / values, and 0 where a value is 0."""
    return np.divide(1, values, out=np.zeros_like(values), where=values != 0)


def directed_matrix(links: NDArray[np.int64], num_nodes: int) -> Dense:
    """Returns links [2, E] as a matrix of ones, in the direction in which they are given."""
    A = np.zeros((num_nodes, num_nodes))
    A[links[0], links[1]] = 1
    return A


def through(weight: Dense, left: Dense, right: Dense | None = None) -> Dense:
    """Returns left · diag(weight) · rightᵀ."""
    return (left * weight) @ (left if right is None else right).T


def by_weight(A: Dense, d: Dense) -> Iterator[tuple[str, Dense]]:
    """Other weights of a common neighbour of degree d."""
    yield "1 (CN)", through(np.ones_like(d), A)
    yield "1 / log d (AA)", through(inverse(np.log(d)), A)
    yield "**1 / d (RA, the definition)**", through(inverse(d), A)
    for power in (-1, -0.5, -0.25, 0.1, 0.2, 0.25, 0.33, 0.5, 0.75, 1.5, 2):
        yield f"d^{-power:g}", through(d**-power, A)
    yield "1 / log(d)²", through(inverse(np.log(d) ** 2), A)
    yield "1 / (1 + d)", through(1 / (1 + d), A)
    yield "1 / 2d: degrees of a doubled graph", through(inverse(2 * d), A)
    yield "1 / (d − 2): both ends taken out", through(inverse(np.maximum(d - 2, 1)), A)


def by_graph(A: Dense, d: Dense, A_valid: Dense) -> Iterator[tuple[str, Dense]]:
    """RA on other symmetric graphs: with self-loops, with validation links."""
    one, d_valid = np.eye(d.size), A_valid.sum(axis=0)
    yield "self-loops in links and degrees", through(1 / (d + 1), A + one)
    yield "self-loops in links only", through(inverse(d), A + one)
    yield "validation links in links and degrees", through(inverse(d_valid), A_valid)
    yield "validation links in degrees only", through(inverse(d_valid), A)
    yield "validation links in links only", through(inverse(d), A_valid)
    yield "validation links and self-loops", through(1 / (d_valid + 1), A_valid + one)


def by_direction(A: Dense, d: Dense, one_way: Dense, order: str) -> Iterator[tuple[str, Dense]]:
    """RA on links that were not made symmetric: each is in `one_way` in one direction."""
    tails_in, heads_out = one_way.sum(axis=0), one_way.sum(axis=1)
    for name, weight in (("in", tails_in), ("out", heads_out), ("whole", d)):
        yield f"{order}: out-neighbours of both, {name} degree", through(inverse(weight), one_way)
        yield f"{order}: in-neighbours of both, {name} degree", through(inverse(weight), one_way.T)
        yield f"{order}: i → z → j, {name} degree", through(inverse(weight), one_way, one_way.T)
    yield f"{order}: symmetric links, in degree", through(inverse(tails_in), A)
    yield f"{order}: symmetric links, out degree", through(inverse(heads_out), A)
    yield f"{order}: out-neighbours of i, all of j", through(inverse(d), one_way, A)
    yield f"{order}: in-neighbours of i, all of j", through(inverse(d), one_way.T, A)


def by_ends(A: Dense, d: Dense) -> Iterator[tuple[str, Dense]]:
    """CN and RA normalised by the degrees of the ends."""
    i, j = d[:, None], d[None, :]
    common = through(np.ones_like(d), A)
    either = np.maximum(i + j - common, 1)
    for name, score in (("CN", common), ("RA", through(inverse(d), A))):
        yield f"{name} / (d_i · d_j) (LHN)", score / np.maximum(i * j, 1)
        yield f"{name} / √(d_i · d_j) (Salton)", score / np.maximum(np.sqrt(i * j), 1)
        yield f"{name} / min(d_i, d_j) (hub promoted)", score / np.maximum(np.minimum(i, j), 1)
        yield f"{name} / max(d_i, d_j) (hub depressed)", score / np.maximum(np.maximum(i, j), 1)
        yield f"{name} / (d_i + d_j) (Sørensen)", score / np.maximum(i + j, 1)
        yield f"{name} / neighbours of either (Jaccard)", score / either
        yield f"{name} · d_i · d_j", score * i * j
        yield f"{name} · √(d_i · d_j)", score * np.sqrt(i * j)


def by_rounding(A: Dense, d: Dense) -> Iterator[tuple[str, Dense]]:
    """RA in less precision."""
    score = through(inverse(d), A)
    yield "RA in float16", score.astype(np.float16).astype(np.float64)
    yield "weights in float16", through(inverse(d).astype(np.float16).astype(np.float64), A)
    for decimals in (0, 1, 2):
        yield f"RA rounded to {decimals} decimals", np.round(score, decimals)
    yield "RA rounded down", np.floor(score)


def ra_variants(proven: ProvenSplit, stored: Dense) -> Iterator[tuple[str, Dense]]:
    """Yields name and scores [N, N]; `stored` has the training links in the direction of the file."""
    A = np.maximum(stored, stored.T)
    held_out = directed_matrix(proven.split.valid.positives.numpy(), A.shape[0])
    d = A.sum(axis=0)
    yield from by_weight(A, d)
    yield from by_graph(A, d, np.maximum(A, held_out + held_out.T))
    yield from by_direction(A, d, stored, "as stored")
    yield from by_direction(A, d, np.triu(A), "lower → higher")
    yield from by_ends(A, d)
    yield from by_rounding(A, d)


def print_ra_variants(proven: ProvenSplit, data: str) -> None:
    """Prints Hits@K of every variant; the last column counts ties as hits."""
    k = int(proven.metric.removeprefix("hits@"))
    with np.load(data) as arrays:
        stored = directed_matrix(arrays["train"].astype(np.int64), proven.train_view.num_nodes)
    print(f"| variant | test {proven.metric} % | valid % | test, valid negatives % | test, ties as hits % |")
    print("|---|---|---|---|---|")
    for name, scores in ra_variants(proven, stored):
        print(f"| {name} | " + " | ".join(f"{value:.2f}" for value in hits_of(scores, proven, k)) + " |", flush=True)


def hits_of(scores: Dense, proven: ProvenSplit, k: int) -> Iterator[float]:
    """Yields Hits@k in % on test, on valid, of test links against valid negatives, and on test with ties as hits."""
    valid, test = proven.split.valid, proven.split.test
    combinations: list[tuple[HeldOut, HeldOut, Callable[[Dense, float], NDArray[np.bool_]]]] = [
        (test, test, np.greater),
        (valid, valid, np.greater),
        (test, valid, np.greater),
        (test, test, np.greater_equal),
    ]
    for positives, negatives, above in combinations:
        assert negatives.negatives is not None
        threshold = np.sort(scores[negatives.negatives[0], negatives.negatives[1]])[-k]
        yield 100 * float(above(scores[positives.positives[0], positives.positives[1]], threshold).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--test-graph", choices=["train", "train+valid"], default="train")
    parser.add_argument("--ra-variants", action="store_true", help="other definitions of RA, for hits@K data")
    options = parser.parse_args()
    proven = prove_split(load(options.data), make_config(settings={"test_graph": options.test_graph}))
    if options.ra_variants:
        print_ra_variants(proven, options.data)
        return
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
