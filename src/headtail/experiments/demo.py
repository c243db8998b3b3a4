"""The demo: train on Debian's dependencies of 2021 and 2023, and predict those that 2025 and 2026 added."""

import time
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from headtail.baselines.heuristics import HEURISTICS
from headtail.contract import Scorer
from headtail.evaluation.figures import ranked_among
from headtail.evaluation.parts import evaluate_part
from headtail.experiments.plots import Curve, accuracy_time_plot
from headtail.graph.load import load
from headtail.graph.names import Name
from headtail.graph.task import LinkTask
from headtail.predictor import LinkPredictor
from headtail.serving.answers import Answers
from headtail.serving.lists import judge_lists
from headtail.training.progress import ProgressBar

PACKAGES = ("blender", "docker.io", "fontforge", "gimp", "kicad")
PREDICTIONS = 6
PRESET = "strong"
# Half of the preset's: two minutes on two cores instead of three.
EPOCHS = 12
RIVALS = ("popularity", "cn", "aa", "ra", "item2hop")
PLOT_FILE = "accuracy-time.png"

Result = dict[str, Any]


def run_demo(out: Path, device: str = "auto", seed: int = 0, json_output: bool = False) -> dict[str, object]:
    """Runs the demo and returns what it found.

    Args:
        out: the run folder; an older demo there is replaced.
        device: cpu, cuda or auto.
        seed: fixes everything random.
        json_output: print nothing on stdout; the caller prints the returned object.
    """
    start = time.perf_counter()
    console = Console(stderr=json_output)
    console.print("Debian's packages: which will newly depend on, recommend or suggest which?")
    graph = load("debian")
    console.print(
        f"{graph.num_nodes:,} packages, {graph.links.shape[1]:,} links of the releases 2021 and 2023 to learn from; "
        "2025 validates, 2026 tests."
    )
    predictor = LinkPredictor(preset=PRESET, device=device, seed=seed, epochs=EPOCHS)
    predictor.fit(graph, out, overwrite=True, observer=ProgressBar(console), say=console.print)
    if not predictor.finished:
        raise KeyboardInterrupt
    task = predictor.task
    results, curves = [_trained_result(predictor)], [_trained_curve(predictor)]
    for name in RIVALS:
        scorer = HEURISTICS[name]().scorer(task.test_view)
        results.append(_heuristic_result(name, scorer, task))
        curves.append(_heuristic_point(name, scorer, task))
    recommendations = _recommendations(predictor)
    accuracy_time_plot(curves, "validation MRR (%)", "Debian: links new in 2025", out / PLOT_FILE)
    if not json_output:
        _show_results(console, results, ranked_among(task, "test")["negatives"], graph.num_nodes)
        _show_recommendations(console, recommendations)
        _show_next(console, out, time.perf_counter() - start)
    return {
        "results": results,
        "recommendations": recommendations.to_dict("records"),
        "run": str(out),
        "plot": str(out / PLOT_FILE),
        "seconds": time.perf_counter() - start,
    }


def _trained_result(predictor: LinkPredictor) -> Result:
    result = predictor.result
    assert result is not None  # as a run folder was written
    seconds = float(result["train_seconds"]) + float(result["evaluation_seconds"])
    return _result(PRESET, result, seconds, result)


def _heuristic_result(name: str, scorer: Scorer, task: LinkTask) -> Result:
    start = time.perf_counter()
    metrics = evaluate_part(scorer, task, "test")
    seconds = time.perf_counter() - start
    return _result(name, metrics, seconds, judge_lists(Answers.exactly(scorer), task, "test", None))


def _result(name: str, metrics: Mapping[str, Any], seconds: float, lists: Mapping[str, Any]) -> Result:
    """Returns a method's row: its metrics, and what its lists are worth."""
    shares = {share: metrics[share] for share in ("mrr", "hits@10")}
    return {"method": name, **shares, "seconds": seconds, "all_nodes": lists["all_nodes"]}


def _heuristic_point(name: str, scorer: Scorer, task: LinkTask) -> Curve:
    start = time.perf_counter()
    value = evaluate_part(scorer, task, "valid")["mrr"]
    return Curve(name, [time.perf_counter() - start], [100 * value])


def _trained_curve(predictor: LinkPredictor) -> Curve:
    """Returns validation accuracy over the seconds of training, at the epochs that were validated."""
    seconds = accumulate(record["seconds"] for record in predictor.history)
    points = [
        (spent, 100 * record["valid_mrr"])
        for spent, record in zip(seconds, predictor.history, strict=True)
        if "valid_mrr" in record
    ]
    return Curve(PRESET, [spent for spent, _ in points], [value for _, value in points])


def _recommendations(predictor: LinkPredictor) -> pd.DataFrame:
    """Returns the best new links of well-known packages, with the release that really added them."""
    task = predictor.task
    # Links of 2025 and 2026 are what is to be found, so only those of training count as known, and as evidence.
    table = predictor.recommend(PACKAGES, PREDICTIONS, "training", "training")
    names = task.graph.names
    added: dict[tuple[Name, Name], int] = {}
    for year, part in ((2025, task.split.valid), (2026, task.split.test)):
        heads, tails = names.of(part.positives[0]), names.of(part.positives[1])
        added |= dict.fromkeys(zip(heads, tails, strict=True), year)
    years = [added.get(pair) for pair in zip(table["head"], table["tail"], strict=True)]
    return table.assign(added=pd.Series(years, dtype=object))


def _show_results(console: Console, results: list[Result], negatives: int, nodes: int) -> None:
    title = f"Test: links new in 2026, each ranked among {negatives:,} others, and among all {nodes:,} packages"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("method")
    sampled, lists = f"of {negatives:,} %", "of all %"
    for column in (f"MRR {sampled}", f"Hits@10 {sampled}", f"recall@10 {lists}", f"recall@50 {lists}", "seconds"):
        table.add_column(column, justify="right")
    best = max(r["mrr"] for r in results)
    for r in results:
        style = "bold" if r["mrr"] == best else ""
        shares = (r["mrr"], r["hits@10"], r["all_nodes"]["recall@10"], r["all_nodes"]["recall@50"])
        table.add_row(r["method"], *(f"{100 * share:.2f}" for share in shares), f"{r['seconds']:.1f}", style=style)
    console.print(table)


def _show_recommendations(console: Console, recommendations: pd.DataFrame) -> None:
    title = "Predicted new dependencies, with the links of 2021 and 2023 as evidence"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("package")
    table.add_column("likeliest new links (✓ year: known to be added by that release)")
    for package, rows in recommendations.groupby("head", sort=False):
        tails = [
            f"[green]{tail} ✓ {int(added)}[/green]" if added else str(tail)
            for tail, added in zip(rows["tail"], rows["added"], strict=True)
        ]
        table.add_row(str(package), ", ".join(tails))
    console.print(table)


def _show_next(console: Console, out: Path, seconds: float) -> None:
    console.print(f"Plot: {out / PLOT_FILE}\nThe run is in {out} ({seconds:.0f} s in all). Next, try:")
    for command in (
        f"headtail recommend {out} --heads firefox-esr,vim -k 5",
        f"headtail evaluate {out}",
        "headtail train YOUR-LINKS.csv --out runs/mine",
    ):
        console.print(f"  {command}", highlight=False)
