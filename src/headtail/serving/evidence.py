"""Which links answers are given from: all that the data has, or those that the test links are scored from."""

from typing import Literal, get_args

from headtail.errors import ConfigError, did_you_mean
from headtail.graph.packed.graph import PackedGraph
from headtail.graph.task import LinkTask
from headtail.graph.view import GraphView

AnswersFrom = Literal["all", "training"]
FROM_TRAINING = "answered from the training links alone: the graph is packed, and no others are laid out."


def chosen_evidence(task: LinkTask, asked: AnswersFrom | None = None) -> AnswersFrom:
    """Returns what was asked for; by default all links, but those of training where a graph is packed.

    Raises:
        ConfigError: it is neither.
    """
    if asked is None:
        return "training" if isinstance(task.graph, PackedGraph) else "all"
    if asked not in get_args(AnswersFrom):
        raise ConfigError(f"unknown evidence {asked!r}; {did_you_mean(asked, get_args(AnswersFrom))}")
    return asked


def view_for(task: LinkTask, evidence: AnswersFrom) -> GraphView:
    """Returns the links to answer from.

    Raises:
        ConfigError: all are asked for, and the graph is packed.
    """
    return task.serving_view if evidence == "all" else task.test_view
