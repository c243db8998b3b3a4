"""Figures of an evaluation as people read them: every name says among how many a link was ranked."""

from collections.abc import Mapping
from typing import Any

from headtail.evaluation.metrics import Metric
from headtail.evaluation.parts import held_out_part
from headtail.graph.task import LinkTask

# Counts and times among the figures of lists.
NOT_SHARES = ("heads", "links", "seconds")


def ranked_among(task: LinkTask, part: str) -> dict[str, int | bool]:
    """Says what held-out links are ranked among: `negatives` of their own, or so many pairs that all share."""
    negatives = held_out_part(task, part).negatives
    assert negatives is not None
    return {"negatives": int(negatives.shape[1]), "shared": Metric.parse(task.metric).k is not None}


def among_text(among: Mapping[str, int | bool]) -> str:
    """Returns "among 300 each", or "against 100,000 pairs"."""
    count = f"{among['negatives']:,}"
    return f"against {count} pairs" if among["shared"] else f"among {count} each"


def metric_text(metric: str, negatives: int | None) -> str:
    """Returns a task's own metric with what its links are ranked among, as far as the count is known."""
    shared = Metric.parse(metric).k is not None
    name = metric.replace("mrr", "MRR").replace("hits", "Hits")
    if negatives is None:
        return f"{name} against pairs" if shared else name
    return f"{name} {among_text({'negatives': negatives, 'shared': shared})}"


def sampled_rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the metrics of an evaluation, as labels and percentages."""
    among = among_text(result["ranked_among"])
    metrics = {name: value for name, value in result.items() if name == "mrr" or name.startswith("hits@")}
    return [(f"{name} {among}", f"{100 * value:.2f}") for name, value in metrics.items()]


def all_nodes_heading(nodes: int) -> str:
    """Returns the heading of a column of figures of lists."""
    return f"among all {nodes:,} nodes"


def all_nodes_rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns what lists are worth, as names and percentages; nothing where that was not measured."""
    figures = result.get("all_nodes", {})
    return [(name, f"{100 * value:.2f}") for name, value in figures.items() if name not in NOT_SHARES]


def all_nodes_counts(result: Mapping[str, Any]) -> str:
    """Returns how much was judged: "3,000 links of 1,500 heads"."""
    figures = result["all_nodes"]
    return f"{figures['links']:,} links of {figures['heads']:,} heads"
