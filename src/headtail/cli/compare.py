"""`headtail compare`: any methods on one graph, under one protocol."""

from pathlib import Path
from typing import Annotated

import typer

from headtail.cli.options import Data, Json, Options
from headtail.cli.output import print_json, print_table, say
from headtail.config import DEFAULT_PRESET

DEFAULT_METHODS = "aml,sage,cn,aa,ra,item2hop"


def compare(
    data: Data,
    source: Options,
    settings: Options,
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="methods with commas between them; headtail methods lists all")
    ] = DEFAULT_METHODS,
    preset: Annotated[str, typer.Option(metavar="NAME", help="fast or paper")] = DEFAULT_PRESET,
    repeats: Annotated[int, typer.Option(metavar="int", min=1, help="seeds per method")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="keep results, table and plot there, and skip what is done")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare methods on one graph: same split, same evaluator, best on the test links first.

    Example:
        headtail compare debian --methods aml,sage,cn,aa,ra,item2hop
        headtail compare links.csv --methods aml,mf,node2vec,seal --repeats 3 --out runs/comparison
    """
    import tempfile
    from dataclasses import asdict

    from rich.console import Console

    from headtail.experiments.compare import COLUMNS, cells, compared, comparison_markdown, comparison_plot
    from headtail.experiments.data import DataSource, PerData
    from headtail.experiments.grid import Plan, run_grid
    from headtail.experiments.paper import RESULTS_FILE, provenance
    from headtail.experiments.variants import variant_named
    from headtail.files import write_text

    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("no method is named; for example --methods aml,ra")
    variants = [variant_named(name) for name in dict.fromkeys(names)]
    where = DataSource(Path(data).name.split(".")[0], data, tuple(source.items()))
    plan = Plan([where], variants, repeats, preset, settings, PerData({}, {}))
    with tempfile.TemporaryDirectory() as scratch:
        folder = out or Path(scratch)
        results = run_grid(plan, folder / RESULTS_FILE, Console(stderr=True), say=say)
    lines = compared(results)
    metric = results[0].metric
    if out is not None:
        title = f"{where.name}: test {metric} over training time"
        comparison_plot(results, title, metric, out / "comparison.png")
        text = f"# {where.name}: {metric} (%)\n\n{comparison_markdown(lines)}\n\n{provenance(results)}\n"
        write_text(out / "comparison.md", text)
    if as_json:
        print_json({"data": where.name, "metric": metric, "methods": [asdict(line) for line in lines]})
        return
    print_table(COLUMNS, [cells(line) for line in lines], f"{where.name}: {metric} (%)", range(1, len(COLUMNS)))
    if out is not None:
        print(f"Results, table and plot are in {out}.")
