"""`headtail evaluate`: how well a run does on links it has not seen."""

from typing import Annotated, Literal

import typer

from headtail.cli.options import Device, Json, Run
from headtail.cli.output import print_json, print_result


def evaluate(
    run: Run,
    split: Annotated[Literal["test", "valid"], typer.Option(help="which held-out links to rank")] = "test",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Rank the held-out links of a run and print its metrics and its work per epoch.

    Example:
        headtail evaluate runs/first
        headtail evaluate runs/first --split valid --json
    """
    from headtail import LinkPredictor

    result = LinkPredictor.load(run, device).evaluate(split)
    if as_json:
        print_json({"run": str(run), **result})
    else:
        print_result(result)
