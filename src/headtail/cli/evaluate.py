"""`headtail evaluate`: how well a run does on links it has not seen."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from headtail.cli.options import Device, HeadsSampled, Json, Run
from headtail.cli.output import print_json, print_result, print_table, say
from headtail.errors import ConfigError
from headtail.given import check_plot_file
from headtail.run_files import check_run


def evaluate(
    run: Run,
    split: Annotated[Literal["test", "valid"], typer.Option(help="which held-out links to rank")] = "test",
    reliability: Annotated[
        Path | None, typer.Option(metavar="FILE", help="judge probabilities too, with a plot in .png or .svg")
    ] = None,
    heads_sampled: HeadsSampled = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Rank the held-out links of a run and print its metrics and its work per epoch.

    Each link is ranked among negatives, and links of --heads-sampled heads also among all nodes: what a list of
    answers is worth.

    With --reliability, probabilities are learned from the validation links and judged on the test links: Brier
    score, log loss, expected calibration error, and a plot of predicted against observed shares.

    Example:
        headtail evaluate runs/first
        headtail evaluate runs/first --split valid --json
        headtail evaluate runs/first --reliability reliability.png
    """
    if reliability is not None:
        check_plot_file(reliability)
        if split != "test":
            raise ConfigError(
                "probabilities are learned from the validation links, so only the test links can judge them; "
                "leave out --split valid, or --reliability."
            )
    check_run(run)

    from headtail import LinkPredictor
    from headtail.ranks import joined

    with joined(device) as ranks:
        predictor = LinkPredictor.load(run, device)
        result = predictor.evaluate(split, heads_sampled)
        judged = None if reliability is None else predictor.reliability()
    if not ranks.leads:
        return
    figures = {}
    if judged is not None and reliability is not None:
        figures = judged.figures()
        title = f"{predictor.config.model.method} on {Path(predictor.task.graph.source).name}"
        from headtail.experiments.reliability import reliability_plot

        reliability_plot(judged, title, reliability)
        say(f"wrote the reliability plot to {reliability}")
    if as_json:
        plot = {"reliability": {**figures, "file": str(reliability)}} if figures else {}
        print_json({"run": str(run), **result, **plot})
        return
    print_result(result, predictor.task.graph.num_nodes)
    if figures:
        rows = [(name.replace("_", " "), f"{value:.4f}") for name, value in figures.items()]
        print_table(["probabilities, test", "value"], rows, numbers=[1])
