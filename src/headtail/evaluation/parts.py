"""Judges a method by the held-out links of a task."""

from dataclasses import dataclass

from torch import Tensor

from headtail.contract import PairScorer
from headtail.errors import ConfigError
from headtail.evaluation.evaluator import evaluate
from headtail.graph.task import LinkTask


@dataclass(frozen=True)
class Validation:
    """Judges a scorer by the validation links of a task."""

    task: LinkTask

    def __call__(self, scorer: PairScorer) -> dict[str, float]:
        return evaluate_part(scorer, self.task, "valid")


def evaluate_part(scorer: PairScorer, task: LinkTask, part: str) -> dict[str, float]:
    """Evaluates the validation or test links; the task's own metric comes first."""
    parts = {"valid": task.split.valid, "test": task.split.test}
    if part not in parts:
        raise ConfigError(f"unknown part {part!r} of the split; links not trained on are evaluated: valid or test.")
    held_out = parts[part]
    assert isinstance(held_out.negatives, Tensor)
    metrics = evaluate(scorer, held_out.positives, held_out.negatives, task.metric)
    return {task.metric: metrics.pop(task.metric)} | metrics
