"""`headtail demo`: the bundled graph, end to end."""

from pathlib import Path
from typing import Annotated

import typer

from headtail.cli.options import Device, Json
from headtail.cli.output import print_json


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
    from headtail.experiments.demo import run_demo

    result = run_demo(out, device, seed, as_json)
    if as_json:
        print_json(result)
