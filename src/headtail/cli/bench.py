"""`headtail bench`: how fast methods train on a graph of a given size, and what a step is made of."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headtail.cli.options import Json, Options, check_source
from headtail.cli.output import print_json, print_table, say
from headtail.config import make_config

if TYPE_CHECKING:
    from headtail.config import Config
    from headtail.graph.graph import Graph


def bench(
    settings: Options,
    scale: Annotated[
        str | None, typer.Option(metavar="NAME", help="collab, ppa or citation2, or nodes and links: 100000,500000")
    ] = None,
    data: Annotated[str | None, typer.Option(metavar="DATA", help="a data set or a file instead")] = None,
    methods: Annotated[str, typer.Option(metavar="NAMES", help="methods with commas between them")] = "aml,sage",
    what: Annotated[
        Literal["training", "answers"], typer.Option(help="time epochs, or the best ten of heads")
    ] = "training",
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write a trace of a few steps of the first method")
    ] = None,
    as_json: Json = False,
) -> None:
    """Time warm epochs of methods with the paper's settings, on a synthetic graph or on your own; or their answers.

    Example:
        headtail bench --scale 20000,100000
        headtail bench --scale citation2 --methods aml,sage,gat --device cuda
        headtail bench --data debian --what answers --methods strong
    """
    from dataclasses import asdict

    from rich.console import Console

    if (scale is None) == (data is None):
        raise typer.BadParameter("give either --scale or --data; for example --scale collab")
    if data is not None:
        check_source(data, {})
    make_config(settings=settings)

    from headtail.experiments.bench import Measured, bench_config, bench_graph, scale_named
    from headtail.experiments.bench import bench as measure
    from headtail.experiments.ceilings import measure_ceilings
    from headtail.experiments.variants import variant_named
    from headtail.graph.load import load
    from headtail.training.learner import resolve_device
    from headtail.training.precision import resolve_precision
    from headtail.training.progress import ProgressBar

    variants = [variant_named(name.strip()) for name in methods.split(",") if name.strip()]
    if not variants:
        raise typer.BadParameter("no method is named; for example --methods aml,sage")
    size = None if scale is None else scale_named(scale)
    configs = [bench_config(variant, size, settings) for variant in variants]
    if size is None:
        graph = load(data)
    else:
        say(f"making a graph of {size.nodes:,} nodes and {size.links:,} links …")
        graph = bench_graph(size)
    say(f"{graph.num_nodes:,} nodes, {graph.links.shape[1]:,} {'' if graph.directed else 'un'}directed links")
    if what == "answers":
        _answers(graph, [variant.label for variant in variants], configs, as_json)
        return
    measured: list[Measured] = []
    for variant, config in zip(variants, configs, strict=True):
        progress = ProgressBar(Console(stderr=True))
        measured.append(measure(graph, variant, config, None if measured else profile, progress))
        say(f"{variant.label}: {measured[-1].seconds_per_epoch:.3g} s/epoch")
    device = resolve_device(configs[0].training.device)
    ceilings = measure_ceilings(device, resolve_precision(configs[0].training.precision, device))
    if as_json:
        lines = [
            asdict(one) | {"links_per_second": one.links_per_second, "step_ms": one.step_ms, "wait_ms": one.wait_ms}
            for one in measured
        ]
        print_json({"ceilings": asdict(ceilings), "methods": lines})
        return
    last = measured[-1]
    speed = [
        [
            one.method,
            f"{one.seconds_per_epoch:.3g}",
            f"{one.links_per_second:,.0f}",
            f"{one.peak_bytes / 2**30:.2f}",
            f"{one.gnn_node_encodings:,}",
            f"{one.mlp_node_encodings:,}",
            f"{last.seconds_per_epoch / last.links * one.links / one.seconds_per_epoch:.2f}",
        ]
        for one in measured
    ]
    against = f"speed, {last.method} = 1"
    columns = ["method", "s/epoch", "links/s", "peak GiB", "GNN encodings", "MLP encodings", against]
    print_table(columns, speed, f"Warm epochs, median of {last.epochs}", range(1, 7))
    names = list(last.phases)
    steps = [
        [one.method, f"{one.step_ms:.3g}", *(f"{one.phases[name]:.3g}" for name in names), f"{one.wait_ms:.3g}"]
        for one in measured
    ]
    print_table(["method", "step", *names, "wait"], steps, "Milliseconds; phases one after the other", range(1, 8))
    work = [
        [
            one.method,
            f"{one.flops_per_step / 1e9:.3g}",
            f"{one.flops_per_step / one.step_ms / 1e9:.3g} of {ceilings.flops / 1e12:.3g}",
            f"{one.bytes_per_step / 1e9:.3g}",
            f"{one.bytes_per_step / one.step_ms / 1e6:.3g} of {ceilings.bytes / 1e9:.3g}",
        ]
        for one in measured
    ]
    columns = ["method", "GFLOP a step", "TFLOP/s", "least GB a step", "GB/s"]
    print_table(columns, work, "Beside what this machine reaches in a matrix product and a copy", range(1, 5))


def _answers(graph: "Graph", labels: list[str], configs: "list[Config]", as_json: bool) -> None:
    """Times answers, and prints them beside the time that training took."""
    from headtail.experiments.bench_answers import bench_answers

    measured = [bench_answers(graph, config).as_json() for config in configs]
    if as_json:
        print_json({"methods": dict(zip(labels, measured, strict=True))})
        return
    for label, figures in zip(labels, measured, strict=True):
        rows = [
            (name.replace("_", " "), f"{value:,.3g}" if isinstance(value, float) else value)
            for name, value in figures.items()
        ]
        print_table([label, "ten best of a head"], rows, numbers=[1])
