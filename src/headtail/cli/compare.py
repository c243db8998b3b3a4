"""`headtail compare`: any methods on one graph, under one protocol."""

from pathlib import Path
from typing import Annotated

import typer

from headtail.cli.options import Data, HeadsSampled, Json, Options, check_source
from headtail.cli.output import print_json, print_table, say
from headtail.cli.train import INTERRUPTED
from headtail.config import make_config

DEFAULT_METHODS = "strong,aml,sage,cn,aa,ra,item2hop"
# `strong` brings its own settings; the other methods train in minutes with these.
COMPARED_PRESET = "fast"


def compare(
    data: Data,
    source: Options,
    settings: Options,
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="methods with commas between them; headtail methods lists all")
    ] = DEFAULT_METHODS,
    preset: Annotated[str, typer.Option(metavar="NAME", help="strong, fast or paper")] = COMPARED_PRESET,
    repeats: Annotated[int, typer.Option(metavar="int", min=1, help="seeds per method")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="keep results, table and plot there, and skip what is done")
    ] = None,
    heads_sampled: HeadsSampled = None,
    as_json: Json = False,
) -> int:
    """Compare methods on one graph: same split, same evaluator, best on the test links first.

    Example:
        headtail compare debian --methods strong,aml,sage,cn,aa,ra,item2hop
        headtail compare links.csv --methods strong,mf,node2vec,seal --repeats 3 --out runs/comparison
    """
    import tempfile
    from dataclasses import asdict

    from rich.console import Console

    from headtail.experiments.data import PerData, own_data
    from headtail.experiments.variants import variant_named

    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("no method is named; for example --methods aml,ra")
    variants = [variant_named(name) for name in dict.fromkeys(names)]
    make_config(preset, None, settings)
    check_source(data, source)
    where = own_data(data, source)

    from headtail.experiments.compare import columns, compared, comparison_markdown, comparison_plot, heading, rows
    from headtail.experiments.grid import Plan, run_grid
    from headtail.experiments.paper import RESULTS_FILE, provenance
    from headtail.experiments.tables import Results
    from headtail.files import write_text

    plan = Plan([where], variants, repeats, preset, settings, PerData({}, {}), out is not None, heads_sampled)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = out or Path(scratch)
            results = run_grid(plan, folder / RESULTS_FILE, Console(stderr=True), say=say)
    except KeyboardInterrupt:
        say(interrupted(out and out / RESULTS_FILE))
        return INTERRUPTED
    lines = compared(results, with_lists=heads_sampled != 0)
    judged_by = Results(results).metric(where.name)
    if out is not None:
        title = f"{where.name}: test accuracy over training time"
        comparison_plot(results, title, judged_by, out / "comparison.png")
        text = f"# {where.name}: {heading(judged_by, lines)}\n\n{comparison_markdown(lines)}\n\n{provenance(results)}\n"
        write_text(out / "comparison.md", text)
    if as_json:
        one = results[0]
        facts = {"metric": one.metric, "protocol": one.protocol, "test_graph": one.test_graph}
        told = [{name: value for name, value in asdict(line).items() if value or name != "all_nodes"} for line in lines]
        print_json({"data": where.name, **facts, "methods": told})
        return 0
    names = columns(lines)
    title = f"{where.name}: {heading(judged_by, lines)}"
    print_table(names, rows(lines), title, range(1, len(names)))
    if out is not None:
        print(f"Results, table and plot are in {out}.")
    return 0


def interrupted(results: Path | None) -> str:
    """Returns what is left of a grid that was interrupted, and how to go on."""
    if results is None:
        return "interrupted; nothing is kept without --out FOLDER."
    return f"interrupted; finished runs are kept in {results}. Run the same command again to go on."
