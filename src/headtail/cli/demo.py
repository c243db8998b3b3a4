"""`headtail demo`: the bundled graph, end to end."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from headtail.cli.options import Device, Json
from headtail.cli.output import print_json

RunDemo: TypeAlias = Callable[[Path | None, str, int, bool], dict[str, object]]


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="where the run is saved")] = Path("headtail-demo"),
    device: Device = "auto",
    seed: Annotated[int, typer.Option(metavar="int", min=0, help="fixes everything random")] = 0,
    as_json: Json = False,
) -> None:
    """Train on Debian's package dependencies and predict new ones, in a few minutes.

    Example:
        headtail demo
        headtail demo --out runs/debian --json
    """
    # By name, when it runs: the demo brings plotting and baselines, which no other command needs.
    run_demo: RunDemo = import_module("headtail.experiments.demo").run_demo
    result = run_demo(out, device, seed, as_json)
    if as_json:
        print_json(result)
