"""Measures packing, pre-encoding and training under a hard memory limit, for graphs of growing size.

    python scripts/measure_scale.py --links 1000000,10000000 --folder /tmp/scale --out docs/experiments/scale.jsonl

Every stage is a process of its own in a memory control group of --limit GiB: the kernel counts its pages of files too,
and ends it where they cannot be given back. Where no group may be made, a watchdog ends it at so much anonymous memory.
Before a stage, the system is told to forget what it keeps of the files, so that the stage reads and is charged for all.
A graph has a tenth as many nodes as links, drawn from power laws, and 128 features per node. What is made in --folder
is removed afterwards, unless --keep is given; a graph that is there already is not packed again.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

FEATURES, LINKS_PER_NODE, BLOCK = 128, 10, 2_000_000
SETTINGS = {"structure": 0, "features_on": "disk", "device": "cpu"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", default="1000000", help="sizes, with commas between")
    parser.add_argument(
        "--folder", type=Path, default=Path("scale"), help="where files are made, 40 GB for 100 M links"
    )
    parser.add_argument("--limit", type=float, default=8.0, help="GiB of memory of every stage")
    parser.add_argument("--batches", type=int, default=200, help="training steps")
    parser.add_argument("--evaluate", action="store_true", help="also encode all nodes and rank the validation links")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch")
    parser.add_argument("--keep", action="store_true", help="leave the graph where it is")
    parser.add_argument("--out", type=Path, help="JSON lines to add the figures to")
    parser.add_argument("--stage", nargs=2, metavar=("NAME", "GRAPH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        name, graph = options.stage
        stages = {"pre-encode": encode, "train": partial(train, batches=options.batches), "evaluate": judge}
        print(json.dumps(stages[name](graph)))
        return
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    for links in map(int, options.links.split(",")):
        folder = options.folder / f"{links}"
        try:
            for record in measure(links, folder, options):
                print(json.dumps(record), flush=True)
                if options.out:
                    with options.out.open("a") as file:
                        file.write(json.dumps(record) + "\n")
        finally:
            if not options.keep:
                shutil.rmtree(folder, ignore_errors=True)


def measure(links: int, folder: Path, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yields the figures of one stage after the other."""
    limit = options.limit
    folder.mkdir(parents=True, exist_ok=True)
    table, matrix, graph = folder / "links.parquet", folder / "x.npy", folder / "graph.ht"
    common = {"links": links, "nodes": links // LINKS_PER_NODE, "limit_gib": limit, "cores": os.cpu_count()}
    common |= {"date": time.strftime("%Y-%m-%d"), "machine": platform.processor() or platform.machine()}
    if not graph.exists():
        start = time.perf_counter()
        write_graph(links, links // LINKS_PER_NODE, table, matrix)
        yield common | {"stage": "make", "seconds": time.perf_counter() - start, "bytes": size_of(folder)}
        forget(folder)
        pack = [sys.executable, "-m", "headtail", "data", "pack", table, "--features", matrix, "-o", graph, "--json"]
        yield common | limited("pack", pack, limit) | {"bytes": size_of(graph)}
    for source in (table, matrix):  # the store has its own; the disk need not hold both
        source.unlink(missing_ok=True)
    for name in ("pre-encode", "train", *(["evaluate"] if options.evaluate else [])):
        forget(folder)
        own = [sys.executable, __file__, "--stage", name, graph, "--batches", options.batches]
        yield common | limited(name, own, limit) | {"bytes": size_of(graph)}


def write_graph(links: int, nodes: int, table: Path, matrix: Path) -> None:
    """Writes links and features block by block; heads and tails are drawn from power laws of different order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from headtail.datasets.synthetic import _ranks

    rng = np.random.default_rng(0)
    schema = pa.schema([("from", pa.int64()), ("to", pa.int64())])
    # Ranks are scattered over the nodes by a multiplication modulo their number, which needs no table.
    steps = [
        next(step for step in range(first, nodes) if np.gcd(step, nodes) == 1) for first in (nodes // 3, nodes // 5)
    ]
    with pq.ParquetWriter(table, schema) as writer:
        for first in range(0, links, BLOCK):
            count = min(BLOCK, links - first)
            ends = [
                _ranks(rng.random(count), nodes, steepness) * step % nodes
                for steepness, step in zip((0.5, 0.75), steps, strict=True)
            ]
            writer.write_table(pa.table(ends, schema=schema))
    x = np.lib.format.open_memmap(matrix, mode="w+", dtype="<f4", shape=(nodes, FEATURES))
    drawn = rng.standard_normal((min(nodes, BLOCK // 10), FEATURES), dtype=np.float32)
    for first in range(0, nodes, len(drawn)):  # other numbers would take longer to draw than to pack
        block = x[first : first + len(drawn)]
        block[...] = drawn[rng.permutation(len(drawn))[: len(block)]]
    x.flush()


def encode(graph: str) -> dict[str, object]:
    """Opens the graph, proves its split, and pre-encodes its features into a file."""
    from headtail import load

    start = time.perf_counter()
    loaded = load(graph)
    opened = time.perf_counter()
    method = method_of(loaded)
    proven = time.perf_counter()
    encoded = method._training.graph.pre_encoded
    done = time.perf_counter()
    return {
        "open_seconds": opened - start,
        "split_seconds": proven - opened,
        "encode_seconds": done - proven,
        "layers": method.config.model.layers,
        "checksum": float(encoded[:: max(1, len(encoded) // 1000)].double().sum()),
    }


def train(graph: str, batches: int) -> dict[str, object]:
    """Learns so many batches of the first epoch."""
    import torch

    from headtail import load
    from headtail.memory import hand_back_surplus, keep_freed_memory

    keep_freed_memory()
    method = method_of(load(graph))
    source = method.batches()
    step, losses, links = method.step(method.optimizer()), [], 0
    start = last = time.perf_counter()
    method.model.train()
    method._training.graph.expect_reads(at_random=True)
    for number, batch in enumerate(method.drawn(source, torch.Generator().manual_seed(0)), 1):
        loss = step(batch)
        losses.append(float(loss.value))
        links += loss.links
        hand_back_surplus()
        if number == batches // 2:  # what is read often is in memory from here on
            last, before = time.perf_counter(), links
        if number == batches:
            break
    now = time.perf_counter()
    return {
        "batches": number,
        "batches_per_epoch": len(source),
        "train_seconds": now - start,
        "links_per_second": links / (now - start),
        "links_per_second_2nd_half": (links - before) / (now - last),
        "loss_first": float(np.mean(losses[: batches // 4])),
        "loss_last": float(np.mean(losses[-batches // 4 :])),
    }


def judge(graph: str) -> dict[str, object]:
    """Encodes all nodes with an untrained model, and ranks the validation links."""
    from headtail import load
    from headtail.evaluation.parts import evaluate_part
    from headtail.memory import keep_freed_memory

    keep_freed_memory()
    method = method_of(load(graph))
    start = time.perf_counter()
    scorer = method.scorer(method.task.train_view)
    encoded = time.perf_counter()
    metrics = evaluate_part(scorer, method.task, "valid")
    done = time.perf_counter()
    return {"encode_all_seconds": encoded - start, "rank_seconds": done - encoded, "mrr": metrics["mrr"]}


def method_of(graph):  # type: ignore[no-untyped-def]
    from headtail.config import make_config
    from headtail.graph.task import make_task
    from headtail.training.trainer import GnnMethod

    config = make_config("fast", None, SETTINGS)
    return GnnMethod.create(make_task(graph, config), config)


# ---- limits ----


def limited(name: str, command: list[object], limit: float) -> dict[str, object]:
    """Runs a command in a memory group of so many GiB; returns its time, its memory at most, and what it printed."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with memory_group(int(limit * 2**30)) as group:

        def join() -> None:
            if group is not None:
                (group / "cgroup.procs").write_text(str(os.getpid()))

        child = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, preexec_fn=join, text=True)
        peak = {"anonymous": 0, "resident": 0}
        watch = threading.Thread(target=watched, args=(child, peak, int(limit * 2**30)))
        watch.start()
        printed = child.communicate()[0]
        watch.join()
    if child.returncode:
        raise SystemExit(f"{name} ended with {child.returncode}, at most {peak['anonymous'] / 2**30:.2f} GiB anonymous")
    found: dict[str, object] = {f"peak_{kind}_gib": round(size / 2**30, 3) for kind, size in peak.items()}
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found["cpu_seconds"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found["limited_by"] = "control group" if group else "watchdog"
    told = {key: value for key, value in json.loads(printed).items() if key != "folder"}
    return {"stage": name, "seconds": time.perf_counter() - start, **found, **told}


def watched(child: "subprocess.Popen[str]", peak: dict[str, int], limit: int) -> None:
    """Notes what a process holds: memory of its own, and with it pages of files; ends it above the limit."""
    while child.poll() is None:
        try:
            lines = Path(f"/proc/{child.pid}/status").read_text().splitlines()
        except OSError:
            break
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
        peak["anonymous"] = max(peak["anonymous"], sizes.get("RssAnon", 0))
        peak["resident"] = max(peak["resident"], sizes.get("VmHWM", 0))
        if sizes.get("RssAnon", 0) > limit:
            child.kill()
        time.sleep(0.05)


@contextmanager
def memory_group(limit: int) -> Iterator[Path | None]:
    """Yields a new memory control group inside the one we are in; None where none may be made."""
    group = None
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, place = line.split(":", 2)
        versions = {"memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), "": ("/sys/fs/cgroup", "memory.max")}
        if kinds not in versions:
            continue
        root, file = versions[kinds]
        path = Path(root) / place.lstrip("/") / f"headtail-{os.getpid()}"
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            (path / file).write_text(str(limit))
            group = path
            break
        except OSError:
            path.rmdir()
    try:
        yield group
    finally:
        if group is not None:
            group.rmdir()


def forget(folder: Path) -> None:
    """Has the system drop what it keeps in memory of the files of a folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb+") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
