"""What a trained method is worth on held-out links, and what it cost: the record that `evaluate` returns."""

import time
from collections.abc import Sequence

from headtail.evaluation.figures import ranked_among
from headtail.evaluation.parts import evaluate_part
from headtail.serving.answering import Answering
from headtail.serving.lists import judge_lists
from headtail.serving.told import told
from headtail.training.counters import COUNTERS
from headtail.training.observer import Record


def judged(
    answering: Answering, part: str, heads_sampled: int | None, history: Sequence[Record], best_epoch: int
) -> Record:
    """Ranks the held-out links of a part, "test" or "valid", and says what lists of some heads are worth."""
    start = time.perf_counter()
    task = answering.method.task
    view = task.test_view if part == "test" else task.train_view
    metrics = evaluate_part(answering.scorer(view), task, part)
    seconds = time.perf_counter() - start
    lists: Record = {}
    if heads_sampled != 0:
        lists = judge_lists(answering.of(view), task, part, heads_sampled, "ranking among all nodes")
        lists["answers"] = told(answering.plan)
    last = history[-1] if history else {}
    return {
        "split": part,
        "metric": task.metric,
        "protocol": task.protocol,
        **metrics,
        "ranked_among": ranked_among(task, part),
        **lists,
        "best_epoch": best_epoch,
        "epochs": len(history),
        "train_seconds": sum(record["seconds"] for record in history),
        "evaluation_seconds": seconds,
        "per_epoch": {name: last.get(name, 0) for name in COUNTERS},
    }
