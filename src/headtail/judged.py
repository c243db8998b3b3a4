"""What a trained method is worth on held-out links, and what it cost: the record that `evaluate` returns."""

import time
from collections.abc import Sequence
from functools import partial

from headtail.evaluation.all_nodes import evaluate_lists
from headtail.evaluation.figures import ranked_among
from headtail.evaluation.parts import evaluate_part
from headtail.serving.answering import Answering
from headtail.serving.answers import best_tails
from headtail.training.counters import COUNTERS
from headtail.training.observer import Record


def judged(answering: Answering, part: str, heads_sampled: int, history: Sequence[Record], best_epoch: int) -> Record:
    """Ranks the held-out links of a part, "test" or "valid", and says what lists of some heads are worth."""
    start = time.perf_counter()
    task = answering.method.task
    view = task.test_view if part == "test" else task.train_view
    metrics = evaluate_part(answering.scorer(view), task, part)
    seconds = time.perf_counter() - start
    lists = {}
    if heads_sampled:
        answers, known = answering.of(view), task.train_view.out_rows
        ranked = partial(best_tails, answers, known=known, shown="ranking among all nodes")
        lists = evaluate_lists(task, part, heads_sampled, ranked)
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
