"""One run: a method, a data set and a seed in, a result with its curve out."""

import hashlib
import json
import platform
import time
from dataclasses import dataclass, field
from datetime import date

import torch

from headtail.config import SECTION_OF, Config, make_config
from headtail.contract import Scorer
from headtail.evaluation.figures import ranked_among
from headtail.evaluation.parts import Validation, evaluate_part
from headtail.experiments.data import DataSource
from headtail.experiments.results import RunResult
from headtail.experiments.variants import Settings, Variant, settings_of
from headtail.graph.graph import Graph
from headtail.graph.task import LinkTask, make_task
from headtail.methods import check_names, make_method
from headtail.serving.answering import Answering
from headtail.serving.lists import judge_lists
from headtail.training.checkpoint import Progress
from headtail.training.counters import COUNTERS
from headtail.training.observer import Observer, Record
from headtail.training.task_method import TaskMethod

LOCAL = ("seal", "degnn")
# Settings that decide what the task is; runs that agree on them can share it.
TASK_SECTIONS = ("graph", "split", "evaluation")


def run_config(variant: Variant, preset: str, for_data: Settings, given: Settings, seed: int) -> Config:
    """Builds the configuration of a run.

    Precedence, the later override: preset, settings of the data set, what the method needs, what makes the
    variant, settings the user gave.
    """
    settings = {**for_data, **settings_of(variant), **given, "seed": seed}
    config = make_config(preset, settings=settings)
    check_names(config)
    return config


def run_key(source: DataSource, config: Config) -> str:
    """Returns a short hash of data and settings but seed and device: equal for repeats of one experiment.

    Only settings that differ from the plain defaults count, so that a setting added later changes no old key.
    """
    text = source.name + source.contents + json.dumps(changed_settings(config), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@dataclass
class TaskCache:
    """Keeps the newest task, since runs that follow each other mostly differ in the method alone."""

    _key: str = ""
    _task: LinkTask | None = None
    seconds: float = 0.0

    def task(self, graph: Graph, config: Config) -> LinkTask:
        sections = [str(getattr(config, section)) for section in TASK_SECTIONS]
        key = " ".join([str(id(graph)), str(config.training.seed), config.training.device, *sections])
        if self._task is None or key != self._key:
            start = time.perf_counter()
            self._task, self._key = make_task(graph, config), key
            self.seconds = time.perf_counter() - start
        return self._task


@dataclass
class CurveJudge:
    """Validates for training, and notes the test metric of the same weights, which decides nothing."""

    method: TaskMethod
    points: list[float] = field(default_factory=list)

    def __call__(self, scorer: Scorer) -> dict[str, float]:
        task = self.method.task
        metrics = evaluate_part(scorer, task, "valid")
        same = task.test_view is task.train_view
        for_test = scorer if same else self.method.scorer(task.test_view)
        self.points.append(evaluate_part(for_test, task, "test")[task.metric])
        return metrics


def run_once(
    source: DataSource,
    graph: Graph,
    variant: Variant,
    config: Config,
    cache: TaskCache,
    observer: Observer | None = None,
    jobs: int = 1,
    judged: bool = True,
    curves: bool = True,
    heads_sampled: int | None = 0,
) -> RunResult:
    """Trains one method and, unless only its work is of interest, judges it; with `curves` by the test links too,
    epoch by epoch, and with `heads_sampled` (see `heads_to_ask`) by the lists of so many heads.

    Raises:
        KeyboardInterrupt: training was interrupted; half a run is no result.
    """
    task = cache.task(graph, config)
    start = time.perf_counter()
    method = make_method(task, config)
    prepare_seconds = cache.seconds + time.perf_counter() - start
    # A subgraph per pair makes every evaluation dear, so the local methods have no test curve.
    curve = CurveJudge(method) if curves and config.model.method not in LOCAL else None
    judge = None if config.split.protocol == "val-as-train" or not judged else curve or Validation(task)
    progress = method.fit(judge, observer)
    if progress.epoch < method.epochs:
        raise KeyboardInterrupt
    start = time.perf_counter()
    answering = Answering(method, config)
    scorer = answering.scorer(task.test_view) if judged else None
    test = -1.0 if scorer is None else evaluate_part(scorer, task, "test")[task.metric]
    evaluation_seconds = time.perf_counter() - start
    lists: Record = {}
    if judged and heads_sampled != 0:
        lists = judge_lists(answering.of(task.test_view), task, "test", heads_sampled)
    if judge is None:
        valid = -1.0
    elif progress.history:
        valid = progress.best_value
    else:
        valid = evaluate_part(answering.scorer(task.train_view), task, "valid")[task.metric]
    last: Record = progress.history[-1] if progress.history else {}
    return RunResult(
        data=source.name,
        method=variant.name,
        seed=config.training.seed,
        key=run_key(source, config),
        metric=task.metric,
        protocol=config.split.protocol,
        test_graph=config.evaluation.test_graph,
        test=test,
        valid=valid,
        best_epoch=progress.best_epoch,
        epochs=progress.epoch,
        train_seconds=sum(record["seconds"] for record in progress.history),
        prepare_seconds=prepare_seconds,
        evaluation_seconds=evaluation_seconds,
        links=int(last.get("links", 0)),
        per_epoch={name: int(last.get(name, 0)) for name in COUNTERS},
        settings=changed_settings(config),
        machine=machine_name(method.device),
        torch=torch.__version__,
        date=date.today().isoformat(),
        jobs=jobs,
        curve=_curve(progress, curve, task.metric),
        negatives=int(ranked_among(task, "test")["negatives"]),
        heads_sampled=heads_sampled,
        all_nodes=lists.get("all_nodes"),
    )


def _curve(progress: Progress, curve: CurveJudge | None, metric: str) -> list[list[float]]:
    if curve is None or not curve.points:
        return []
    points, seconds, tests = [], 0.0, iter(curve.points)
    for record in progress.history:
        seconds += record["seconds"]
        if f"valid_{metric}" in record:
            points.append([seconds, record[f"valid_{metric}"], next(tests)])
    return points


def changed_settings(config: Config) -> dict[str, object]:
    """Returns the settings that differ from the plain defaults."""
    plain = Config().model_dump()
    chosen = config.model_dump()
    return {
        name: chosen[section][name]
        for name, section in SECTION_OF.items()
        if chosen[section][name] != plain[section][name] and name not in ("device", "seed")
    }


def machine_name(device: torch.device) -> str:
    """Returns what did the work: the GPU's name, or the processor and how many threads used it."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
