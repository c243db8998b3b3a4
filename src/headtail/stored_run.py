"""Reads run folders, which may come from strangers: nothing in them is run, led out of the folder by, or believed.

Configuration, graph and weights are each checked by themselves, then against each other, before a model is built.
"""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from headtail.config import Config, load_config
from headtail.errors import RunError
from headtail.files import file_digest
from headtail.final import read_final
from headtail.graph.kept import Kept
from headtail.graph.store import fingerprint, load_task
from headtail.graph.task import LinkTask
from headtail.kept_answers import kept_answers
from headtail.limits import refuse_beyond_memory
from headtail.methods import check_names, make_method
from headtail.ranks import current
from headtail.run_files import ANSWERS_FILE, CONFIG_FILE, MODEL_FILE, check_run
from headtail.runs import read_history
from headtail.serving.plan import AnswerPlan
from headtail.serving.sight import Sight
from headtail.training.checkpoint import load_model
from headtail.training.observer import Record
from headtail.training.task_method import TaskMethod

# The trees of a plan have some hundred kilobytes.
MOST_PLAN_BYTES = 2**26


@dataclass(frozen=True)
class StoredRun:
    """A trained method with its settings, the history of its training, and how it answers.

    Attributes:
        plan: None where that was not found yet.
        kept: what takes long to make for answers.
        final: the method as it learned all links in the end.
    """

    config: Config
    method: TaskMethod
    best_epoch: int
    history: list[Record]
    plan: AnswerPlan | None
    kept: Kept | None
    final: TaskMethod | None


def read_run(folder: Path, device: str) -> StoredRun:
    """Reads a run folder for use on a device.

    Raises:
        RunError: it is missing, unfinished, damaged, or its parts do not belong together.
    """
    check_run(folder)
    config = load_config(folder / CONFIG_FILE)
    training = config.training.model_copy(update={"device": device})
    config = config.model_copy(update={"training": training})
    check_names(config)
    task = load_task(folder)
    weights, best_epoch = load_model(folder, fingerprint(task))
    if current().several:
        current().agree("the run", f"{config.to_yaml()} {fingerprint(task)} {file_digest(folder / MODEL_FILE)}")
    _refuse_misfit(config, weights, folder)
    try:
        method = make_method(task, config)
        method.restore(weights)
    except RuntimeError as error:
        raise RunError(f"{folder / MODEL_FILE} does not fit {folder / CONFIG_FILE}: {error}") from error
    history = read_history(folder)
    whole = len(history) == method.epochs > 0  # a training that was stopped has learned nothing more
    final = read_final(folder, task, config, best_epoch) if config.training.final and whole else None
    kept = kept_answers(folder, task, config)
    current().agree("what the run keeps", "" if kept is None else " ".join(kept.tensors))
    return StoredRun(config, method, best_epoch, history, _plan(folder, task), kept, final)


def _plan(folder: Path, task: LinkTask) -> AnswerPlan | None:
    """Returns how the run answers; None where that was not found yet."""
    path = folder / ANSWERS_FILE
    try:
        if not path.exists():
            return None
        if path.stat().st_size > MOST_PLAN_BYTES:
            raise RunError(
                f"{path} has more than {MOST_PLAN_BYTES:,} bytes, which no answers need; is it another file?"
            )
        plan = AnswerPlan.from_json(path.read_bytes(), str(path))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}.") from error
    plan.candidates(Sight.of(task.train_view, task.graph.features))  # refuses the plan of another graph
    return plan


def _refuse_misfit(config: Config, weights: dict[str, Tensor], folder: Path) -> None:
    """Refuses settings of a model much larger than the weights: merely building it could take all memory."""
    model = config.model
    sizes = {size for tensor in weights.values() for size in tensor.shape}
    if weights and (model.hidden not in sizes or max(model.layers, model.scorer_layers) > len(weights)):
        raise RunError(
            f"{folder / MODEL_FILE} does not fit {folder / CONFIG_FILE}: no weights are those of {model.layers} layers "
            f"of {model.hidden} and {model.scorer_layers} layers of the scorer."
        )
    layers = model.layers + model.scorer_layers
    refuse_beyond_memory(f"the model of {folder}", 4 * layers * model.hidden**2 if weights else 0)
