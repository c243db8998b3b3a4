"""`headtail paper`: the tables and figures of the paper, on its data sets or on any other graph."""

from pathlib import Path
from typing import Annotated

import typer

from headtail.cli.compare import interrupted
from headtail.cli.options import Json, Options
from headtail.cli.output import print_json, say
from headtail.cli.train import INTERRUPTED
from headtail.config import make_config


def paper(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="statistics, complexity, main, others, smlp, reversed, ablation, curves, or all",
        ),
    ],
    settings: Options,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="data set or file; may be repeated, or several with commas"),
    ] = None,
    repeats: Annotated[int, typer.Option(metavar="int", min=1, help="seeds per method")] = 5,
    root: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="where NAME.npz or OGB's folders of the data sets are")
    ] = None,
    download: Annotated[
        bool,
        typer.Option("--download", metavar="", help="fetch missing OGB data sets; needs the package ogb"),
    ] = False,
    per_data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML of settings for each data set, and for methods on it")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="results, tables and plots; what is done there is skipped")
    ] = Path("paper-results"),
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="what settings start from: strong, fast or paper")
    ] = "paper",
    jobs: Annotated[
        int, typer.Option(metavar="int", min=1, help="runs side by side; their times are then not reported")
    ] = 1,
    train: Annotated[
        bool, typer.Option("--train/--no-train", metavar="", help="do missing runs, or make tables from what is there")
    ] = True,
    as_json: Json = False,
) -> int:
    """Repeat the paper's experiments, one command a table.

    Every finished run is one line in FOLDER/results.jsonl, so an interruption loses at most the run in progress,
    and the same command goes on where it stopped. Tables are written as Markdown, curves as PNG and SVG.

    Example:
        headtail paper main --data debian --repeats 3
        headtail paper all --data ogbl-collab --data ogbl-citation2 --root dataset
    """
    from rich.console import Console

    from headtail.experiments.data import find_data, read_per_data
    from headtail.experiments.published import DATA

    make_config(preset, None, settings)
    asked = [name.strip() for names in data or DATA for name in names.split(",")]
    sources = [find_data(name, root, download) for name in dict.fromkeys(asked) if name]
    if not sources:
        raise typer.BadParameter("no data set is named; for example --data debian")
    per_name = read_per_data(per_data)

    from headtail.experiments.paper import TABLES, PaperRun, check_table, make_table

    check_table(table)
    run = PaperRun(
        sources=sources,
        repeats=repeats,
        preset=preset,
        given=settings,
        per_data=per_name,
        out=out,
        console=Console(stderr=True),
        say=say,
        jobs=jobs,
        train=train,
    )
    tables = {}
    try:
        for name in TABLES if table == "all" else [table]:
            tables[name] = make_table(name, run)
            if not as_json:
                print(tables[name] + "\n", flush=True)
    except KeyboardInterrupt:
        say(interrupted(out))
        return INTERRUPTED
    if as_json:
        print_json({"out": str(out), "tables": tables})
    else:
        say(f"Tables, plots and results are in {out}.")
    return 0
