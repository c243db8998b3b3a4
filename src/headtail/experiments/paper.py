"""The paper's experimental section: which runs each table needs, and how it is written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from headtail.config import Config
from headtail.errors import ConfigError, did_you_mean
from headtail.experiments.compare import mean_curve
from headtail.experiments.complexity import FORMULAS, complexity_table, sizes_of
from headtail.experiments.data import DataSource, PerData
from headtail.experiments.grid import Plan, run_grid
from headtail.experiments.one_run import TaskCache, run_config, run_key, run_once
from headtail.experiments.plots import accuracy_time_plot
from headtail.experiments.results import RunResult, append_result, identity, make_ready, read_results
from headtail.experiments.tables import Part, Results, TableSpec, accuracy_table, cost_table, markdown_table
from headtail.experiments.variants import Settings, Variant, variant_named
from headtail.files import write_text
from headtail.graph.graph import HeldOut
from headtail.graph.task import prove_split

RESULTS_FILE, COUNTS_FILE = "results.jsonl", "complexity.jsonl"
ABLATED = ("no-kt", "no-delta", "no-ho", "no-pe")

SPECS = {
    spec.name: spec
    for spec in (
        TableSpec(
            "main",
            "Comparison with global GNN link prediction",
            (Part("SAGE as the GNN", ("sage", "aml"), "sage"), Part("GAT as the GNN", ("gat", "aml-gat"), "gat")),
            time=True,
        ),
        TableSpec(
            "others",
            "Comparison with non-GNN and local GNN link prediction",
            (
                Part("No GNN", ("cn", "aa", "ra", "jaccard", "pa", "katz", "item2hop", "node2vec", "mf")),
                Part("Local GNN", ("degnn", "seal")),
                Part("Global GNN", ("aml", "aml-gat")),
            ),
            time=True,
        ),
        TableSpec("smlp", "Is the GNN necessary?", (Part("", ("smlp", "aml", "aml-gat"), "smlp"),), time=False),
        TableSpec(
            "reversed",
            "Reversed asymmetric learning",
            (Part("", ("aml-r", "aml", "aml-r-gat", "aml-gat")),),
            time=False,
        ),
        TableSpec(
            "ablation",
            "Ablation",
            (
                Part("SAGE as the GNN", (*(f"aml-{part}" for part in ABLATED), "aml"), "aml"),
                Part("GAT as the GNN", (*(f"aml-{part}-gat" for part in ABLATED), "aml-gat"), "aml-gat"),
            ),
            time=False,
        ),
        TableSpec(
            "curves",
            "Test accuracy over training time",
            (Part("SAGE as the GNN", ("sage", "aml"), "sage"), Part("GAT as the GNN", ("gat", "aml-gat"), "gat")),
            time=True,
        ),
    )
}
TABLES = ("statistics", "complexity", *SPECS)


@dataclass(frozen=True)
class PaperRun:
    """Everything a table needs to be made."""

    sources: Sequence[DataSource]
    repeats: int
    preset: str
    given: Settings
    per_data: PerData
    out: Path
    console: Console
    say: Callable[[str], None]
    jobs: int = 1
    # False makes tables from the results that are there
    train: bool = True

    @property
    def names(self) -> list[str]:
        return [source.name for source in self.sources]


def check_table(name: str) -> None:
    """Refuses a table that the paper does not have."""
    if name not in (*TABLES, "all"):
        raise ConfigError(f"unknown table {name!r}; {did_you_mean(name, [*TABLES, 'all'])}")


def make_table(name: str, run: PaperRun) -> str:
    """Does the runs of a table that are missing, writes OUT/NAME.md, and returns its text."""
    check_table(name)
    if name == "statistics":
        text = f"## Statistics of the data sets\n\n{_statistics(run)}"
    elif name == "complexity":
        text = f"## Complexity\n\n{_complexity(run)}"
    else:
        spec = SPECS[name]
        _refuse_contradictions(spec.variants, run.given)
        plan = Plan(run.sources, spec.variants, run.repeats, run.preset, run.given, run.per_data)
        results = run_grid(plan, run.out / RESULTS_FILE, run.console, run.jobs, run.say, run.train)
        text = _text(spec, run, Results(results))
    write_text(run.out / f"{name}.md", text + "\n")
    return text


def _refuse_contradictions(variants: Sequence[Variant], given: Settings) -> None:
    """Refuses settings under which a row of the table would not be what its label says."""
    for variant in variants:
        for name in given.keys() & variant.settings.keys():
            if given[name] != variant.settings[name]:
                raise ConfigError(
                    f"{name} {given[name]!r} contradicts {variant.label}, whose {name} is {variant.settings[name]!r}; "
                    "leave it out, or use headtail compare."
                )


def _text(spec: TableSpec, run: PaperRun, found: Results) -> str:
    methods = [variant.name for variant in spec.variants]
    parts = [f"## {spec.title}", accuracy_table(spec, run.names, found)]
    if spec.time:
        parts += ["What it cost:", cost_table(run.names, methods, found)]
    if spec.name == "curves":
        plots = [f"![{path.stem}]({path.name})" for path in _plots(run, found, spec)]
        parts += plots or ["No plot: runs that shared the machine (--jobs) have no times to draw."]
    return "\n\n".join([*parts, provenance(found.results)])


def provenance(results: Sequence[RunResult]) -> str:
    """Returns who measured what when: machine, date, seeds, epochs."""
    if not results:
        return "No runs yet."
    machines = ", ".join(dict.fromkeys(f"{result.machine}, torch {result.torch}" for result in results))
    dates = sorted({result.date for result in results})
    seeds = len({result.seed for result in results})
    spread = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "one seed"
    shared = sorted({result.jobs for result in results if result.jobs > 1})
    note = f" Runs made {shared[0]} at a time have no time column." if shared else ""
    span = dates[0] if len(dates) == 1 else f"{dates[0]} – {dates[-1]}"
    return (
        f"Test metric at the best validation epoch, {spread}; time is training alone, median over runs. "
        f"{machines}; {span}.{note}"
    )


def _plots(run: PaperRun, found: Results, spec: TableSpec) -> list[Path]:
    written = []
    for source in run.sources:
        for part in spec.parts:
            runs = [[run for run in found.of(source.name, name) if run.jobs == 1] for name in part.methods]
            curves = [curve for of_method in runs if (curve := mean_curve(of_method)) is not None]
            if curves:
                encoder = part.methods[0]
                path = run.out / f"curves-{source.name}-{encoder}.png"
                metric = f"test {found.metric(source.name)}"
                for file in (path, path.with_suffix(".svg")):
                    accuracy_time_plot(curves, metric, f"{source.name}, {encoder.upper()} as the GNN", file)
                written.append(path)
    return written


def _statistics(run: PaperRun) -> str:
    rows: list[list[str]] = []
    for source in run.sources:
        graph = source.load()
        for_data, _ = run.per_data.of(source.name, "aml", run.preset)
        config = run_config(variant_named("aml"), run.preset, for_data, run.given, 0)
        proven = prove_split(graph, config)
        split = proven.split
        positives = [split.train.shape[1], split.valid.positives.shape[1], split.test.positives.shape[1]]
        pairs = [_pairs(part, proven.metric) for part in (split.valid, split.test)]
        rows.append(
            [
                source.name,
                "directed" if graph.directed else "undirected",
                f"{graph.num_nodes:,}",
                f"{sum(positives):,}",
                "none" if graph.features is None else str(graph.features.shape[1]),
                f"{positives[0]:,}",
                f"{pairs[0]:,}",
                f"{pairs[1]:,}",
                proven.metric,
            ]
        )
    columns = ["data", "kind", "nodes", "edges", "features/node", "training links", "validation links", "test links"]
    note = "Validation and test links count positives and negatives, as the paper's table does."
    return f"{markdown_table([*columns, 'metric'], rows)}\n\n{note}"


def _pairs(part: HeldOut, metric: str) -> int:
    """Returns how many pairs a held-out part has: its positives and their negatives."""
    assert part.negatives is not None
    # tails [P, K] of each positive, or pairs [2, M] that all positives share
    negatives = part.negatives.numel() if metric == "mrr" else part.negatives.shape[1]
    return part.positives.shape[1] + negatives


def _complexity(run: PaperRun) -> str:
    """Counts one real epoch of every method in Table 1."""
    _refuse_contradictions([variant_named(name) for name in FORMULAS], run.given)
    path = run.out / COUNTS_FILE
    make_ready(path)
    done = {identity(result): result for result in read_results(path, run.say)}
    parts = []
    for source in run.sources:
        graph, cache = source.load(), TaskCache()
        counted: list[RunResult] = []
        configs: dict[str, Config] = {}
        for name in FORMULAS:
            variant = variant_named(name)
            for_data, for_method = run.per_data.of(source.name, name, run.preset)
            given: Settings = {**for_method, **run.given, "epochs": 1}
            config = configs[name] = run_config(variant, run.preset, for_data, given, 0)
            key = (source.name, name, 0, run_key(source, config))
            if key not in done and not run.train:
                continue
            if key not in done:
                result = done[key] = run_once(source, graph, variant, config, cache, judged=False)
                append_result(path, result)
                line = f"{source.name} {name}: counted in {result.train_seconds:.1f} s"
                run.console.print(line, highlight=False, markup=False, soft_wrap=True)
            counted.append(done[key])
        view = prove_split(graph, configs["aml"]).train_view
        sizes = sizes_of(view, configs["aml"], configs["seal"])
        parts.append(f"### {source.name}\n\n{complexity_table(sizes, counted)}")
    return "\n\n".join(parts)
