"""What a model sees of a view of the graph."""

from dataclasses import dataclass

from headtail.graph.evidence import PairEvidence, choose_evidence
from headtail.graph.message import MessageGraph
from headtail.graph.task import LinkTask


@dataclass(frozen=True)
class Surroundings:
    """What a model sees of a view: the message graph, and evidence about pairs if it reads any."""

    graph: MessageGraph
    evidence: PairEvidence | None


def evidence_kinds(task: LinkTask, setting: str) -> tuple[str, ...]:
    """Returns the kinds of evidence that a setting names and a task allows."""
    return choose_evidence(setting, task.train_view, task.graph.features is not None)
