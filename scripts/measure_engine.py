"""Measures the GPU engine and appends a JSON line per figure: speed by scale, growth, evaluation, precision.

    python scripts/measure_engine.py RESULTS.jsonl citation2 collab ppa real growth training precision --data FOLDER

Every part stands alone, so an interrupted run loses only the part it was in. FOLDER holds the real graphs as npz.
"""

import argparse
import json
import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import torch

from headtail import LinkPredictor, load
from headtail.evaluation.evaluator import evaluate
from headtail.experiments.bench import Scale, bench, bench_config, bench_graph, scale_named
from headtail.experiments.ceilings import measure_ceilings
from headtail.experiments.variants import variant_named
from headtail.graph.graph import Graph
from headtail.graph.task import make_task
from headtail.methods import make_method
from headtail.training.observer import Observer

Line = dict[str, object]
CUDA = {"device": "cuda"}
RANKED, RIVALS = 86_596, 1_000  # what ogbl-citation2 ranks
SEEDS, EPOCHS = 8, {"metamath": 25, "debian": 30}  # of the part `precision`


def measured(graph: Graph, scale: Scale | None, method: str, epochs: int, what: str) -> Line:
    variant = variant_named(method)
    found = bench(graph, variant, bench_config(variant, scale, {**CUDA, "epochs": epochs}))
    torch.cuda.empty_cache()
    more = {"ms_per_step": found.step_ms, "links_per_second": found.links_per_second, "wait_ms": found.wait_ms}
    return {"what": what} | asdict(found) | more


def by_scale(name: str, methods: dict[str, int]) -> Iterator[Line]:
    scale = scale_named(name)
    graph = bench_graph(scale)
    for method, epochs in methods.items():
        yield measured(graph, scale, method, epochs, name)


def citation2(_given: Namespace) -> Iterator[Line]:
    ceilings = measure_ceilings(torch.device("cuda"), "bf16")
    yield {"what": "ceilings", "flops": ceilings.flops, "bytes": ceilings.bytes}
    yield from by_scale("citation2", {"aml": 4, "aml-gat": 3, "sage": 2})


def collab(_given: Namespace) -> Iterator[Line]:
    yield from by_scale("collab", {"aml": 6, "sage": 4})


def ppa(_given: Namespace) -> Iterator[Line]:
    yield from by_scale("ppa", {"aml": 4})


def real(given: Namespace) -> Iterator[Line]:
    for method in ("aml", "sage"):
        yield measured(load(given.data / "acl-collab.npz"), None, method, 6, "acl-collab")


def growth(_given: Namespace) -> Iterator[Line]:
    for nodes, links in ((400_000, 4_000_000), (400_000, 8_000_000), (800_000, 4_000_000)):
        scale = Scale(nodes, links)
        yield measured(bench_graph(scale), scale, "aml", 4, f"{nodes} nodes, {links} links")


def training(given: Namespace) -> Iterator[Line]:
    """A training at citation2's size, with validation every second epoch, and evaluation by itself."""
    scale, epochs = scale_named("citation2"), given.epochs
    graph = bench_graph(scale)
    config = bench_config(variant_named("aml"), scale, {**CUDA, "epochs": epochs})
    method = make_method(make_task(graph, config), config)
    generator = torch.Generator().manual_seed(0)
    links = torch.randint(graph.num_nodes, (2, RANKED), generator=generator)
    rivals = torch.randint(graph.num_nodes, (RANKED, RIVALS), generator=generator, dtype=torch.int32)
    seconds: list[tuple[float, float]] = []
    trained: list[int] = []

    class Watch(Observer):
        """Ranks after every second epoch; what it is ranked by does not matter for the time it takes."""

        def epoch_done(self, record: dict[str, object]) -> None:
            trained.append(torch.cuda.max_memory_allocated())
            if int(str(record["epoch"])) % 2 == 0:
                method.model.eval()  # type: ignore[attr-defined]
                seconds.append(timed(lambda: method.scorer(method.task.train_view), links, rivals))

    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    method.fit(None, Watch())
    torch.cuda.synchronize()
    yield {
        "what": "training",
        "epochs": epochs,
        "seconds": time.perf_counter() - start,
        "encode_seconds": statistics.median(one for one, _ in seconds),
        "rank_seconds": statistics.median(other for _, other in seconds),
        "peak_bytes_before_evaluation": trained[0],
        "peak_bytes": torch.cuda.max_memory_allocated(),
    }


def timed(encode: Callable[[], object], links: torch.Tensor, rivals: torch.Tensor) -> tuple[float, float]:
    """Returns the seconds of encoding all nodes, and of ranking the links."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    scorer = encode()
    torch.cuda.synchronize()
    middle = time.perf_counter()
    evaluate(scorer, links, rivals, "mrr")  # type: ignore[arg-type]
    return middle - start, time.perf_counter() - middle


def precision(given: Namespace) -> Iterator[Line]:
    """Test MRR of `paper` in bf16 and fp32, seed by seed."""
    for name in given.graphs:
        graph, epochs = load(given.data / f"{name}.npz"), EPOCHS[name]
        for seed in range(SEEDS):
            for kind in ("bf16", "fp32"):
                settings = {"epochs": epochs, "evaluate_every": 5, "seed": seed, "precision": kind}
                start = time.perf_counter()
                model = LinkPredictor(preset="paper", **CUDA, **settings).fit(graph, observer=Observer())
                mrr = model.evaluate(heads_sampled=0)["mrr"]
                seconds = time.perf_counter() - start
                yield {"what": name, "precision": kind, "epochs": epochs, "seed": seed, "mrr": mrr, "seconds": seconds}


PARTS: dict[str, Callable[[Namespace], Iterator[Line]]] = {
    part.__name__: part for part in (citation2, collab, ppa, real, growth, training, precision)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; by default all")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the real graphs")
    parser.add_argument("--epochs", type=int, default=50, help="of the part `training`")
    parser.add_argument("--graphs", nargs="+", default=list(EPOCHS), help="of the part `precision`")
    given = parser.parse_args()
    machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}
    for name in given.parts or PARTS:
        for line in PARTS[name](given):
            with given.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line | machine) + "\n")
            print(
                json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in line.items()})
            )


if __name__ == "__main__":
    main()
