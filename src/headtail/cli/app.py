"""The `headtail` command: which functions are its subcommands, and the flags they share."""

from typing import Annotated

import typer

from headtail.cli.bench import bench
from headtail.cli.compare import compare
from headtail.cli.data_info import data_info
from headtail.cli.data_list import data_list
from headtail.cli.data_pack import data_pack
from headtail.cli.data_split import SPLIT_SETTINGS, data_split
from headtail.cli.demo import demo
from headtail.cli.evaluate import evaluate
from headtail.cli.methods import methods
from headtail.cli.options import add_command, setting_flags, source_flags
from headtail.cli.paper import paper
from headtail.cli.predict import predict
from headtail.cli.recommend import recommend
from headtail.cli.train import train
from headtail.config import SECTION_OF

# The seed is counted up by repeats, and the method is what is compared.
COMPARED_SETTINGS = tuple(name for name in SECTION_OF if name not in ("seed", "method"))

SUMMARY = "Predict the missing links of large graphs."
app = typer.Typer(
    epilog="Start with:\n  headtail demo\nOr on your own links:\n  headtail train links.csv --out runs/first",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
add_command(app, "demo", demo)
add_command(app, "train", train, source=source_flags(), settings=setting_flags())
add_command(app, "evaluate", evaluate)
add_command(app, "predict", predict)
add_command(app, "recommend", recommend)
add_command(app, "compare", compare, source=source_flags(), settings=setting_flags(COMPARED_SETTINGS))
add_command(app, "paper", paper, settings=setting_flags(COMPARED_SETTINGS))
add_command(app, "bench", bench, settings=setting_flags(COMPARED_SETTINGS))
add_command(app, "methods", methods)

data_app = typer.Typer(help="List, describe, split and pack data.", no_args_is_help=True, rich_markup_mode="rich")
add_command(data_app, "list", data_list)
add_command(data_app, "info", data_info, source=source_flags())
add_command(data_app, "pack", data_pack)
add_command(data_app, "split", data_split, source=source_flags(), settings=setting_flags(SPLIT_SETTINGS))
app.add_typer(data_app, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        from headtail import __version__

        print(f"headtail {__version__}")
        raise typer.Exit


@app.callback(help=SUMMARY)
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="show the version and exit")
    ] = False,
) -> None:
    pass
