#!/usr/bin/env python3
"""What lists of answers are worth on test links ranked among all nodes, beside every heuristic; a JSON line per method.

    python scripts/measure_answers.py DATA [--seeds 0,1,2] [--heads-sampled 1500] [--run FOLDER] [--out LINES.jsonl]

`strong` is trained per seed (or read from a run folder) and judged three times: as it answers, by its
second stage alone, and by its own score over the same candidates. All of it is chosen on validation links.
"""

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from headtail import LinkPredictor, load
from headtail.baselines.heuristics import HEURISTICS
from headtail.evaluation.all_nodes import evaluate_lists
from headtail.graph.task import LinkTask
from headtail.serving.answering import Answering
from headtail.serving.answers import Answers, best_tails
from headtail.serving.plan import FIRST, Choice
from headtail.training.observer import Observer

NAMES = ("recall@10", "recall@50", "mrr@50", "head_recall@20", "head_ndcg@20")


def lists_of(task: LinkTask, answers: Answers, heads: int) -> dict[str, float]:
    ranked = partial(best_tails, answers, known=task.train_view.out_rows)
    return evaluate_lists(task, "test", heads, ranked)["all_nodes"]


def main() -> None:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("data")
    ask.add_argument("--seeds", default="0")
    ask.add_argument("--heads-sampled", type=int, default=1500)
    ask.add_argument("--run", type=Path)
    ask.add_argument("--out", type=Path)
    ask.add_argument("--heuristics", action="store_true", help="judge all heuristics too")
    given = ask.parse_args()

    def tell(method: str, seed: int | None, figures: dict[str, float], **more: object) -> None:
        percent = {name: round(100 * figures[name], 2) for name in NAMES}
        line = {"data": Path(given.data).stem, "method": method, "seed": seed, **percent, "heads": figures["heads"]}
        line |= {"links": figures["links"], "seconds": round(figures["seconds"], 2), **more}
        print(json.dumps(line), flush=True)
        if given.out:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    task = None
    for seed in map(int, given.seeds.split(",")):
        start = time.perf_counter()
        if given.run:
            model = LinkPredictor.load(given.run)
        else:
            model = LinkPredictor(seed=seed).fit(load(given.data), observer=Observer())
        train_seconds, task = time.perf_counter() - start, model.task
        evaluation = model.config.evaluation.model_copy(update={"answers": "chosen"})
        answering = Answering(model.method, model.config.model_copy(update={"evaluation": evaluation}))
        start = time.perf_counter()
        plan = answering.plan
        assert plan is not None
        seconds = {"train_seconds": round(train_seconds, 1), "choose_seconds": round(time.perf_counter() - start, 1)}
        answers = answering.of(task.test_view)
        tell("as chosen", seed, lists_of(task, answers, given.heads_sampled), choice=str(plan.choice), **seconds)
        for name in (plan.shortlist, FIRST):
            single = replace(plan, choice=Choice(name))
            one = Answers(task.graph.num_nodes, partial(answering.scorer, task.test_view), answers.sight, single)
            tell(name, seed, lists_of(task, one, given.heads_sampled))
    if given.heuristics and task is not None:
        for name in HEURISTICS:
            scorer = HEURISTICS[name]().scorer(task.test_view)
            tell(name, None, lists_of(task, Answers.exactly(scorer), given.heads_sampled))


if __name__ == "__main__":
    main()
