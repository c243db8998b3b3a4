"""Reads run folders, which may come from strangers: nothing in them is run, led out of the folder by, or believed.

Configuration, graph and weights are each checked by themselves, then against each other, before a model is built.
"""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from headtail.config import Config, load_config
from headtail.errors import RunError
from headtail.files import file_digest
from headtail.graph.kept import Kept
from headtail.graph.store import fingerprint, load_task
from headtail.kept_answers import kept_answers
from headtail.limits import refuse_beyond_memory
from headtail.methods import check_names, make_method
from headtail.ranks import current
from headtail.runs import ANSWERS_FILE, CONFIG_FILE, read_history, refuse_ways_out
from headtail.serving.plan import AnswerPlan
from headtail.training.checkpoint import MODEL_FILE, load_model
from headtail.training.observer import Record
from headtail.training.task_method import TaskMethod


@dataclass(frozen=True)
class StoredRun:
    """A trained method with its settings, the history of its training, how it answers, and what it keeps for that."""

    config: Config
    method: TaskMethod
    best_epoch: int
    history: list[Record]
    plan: AnswerPlan | None
    kept: Kept | None


def read_run(folder: Path, device: str) -> StoredRun:
    """Reads a run folder for use on a device.

    Raises:
        RunError: it is missing, unfinished, damaged, or its parts do not belong together.
    """
    if not (folder / CONFIG_FILE).is_file():
        raise RunError(
            f"{folder} is not a run folder: it has no {CONFIG_FILE}. Train one: headtail train DATA --out {folder}"
        )
    if not (folder / MODEL_FILE).is_file():
        raise RunError(f"{folder} has no finished model yet; go on with: headtail train DATA --out {folder} --resume")
    refuse_ways_out(folder)
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
    kept = kept_answers(folder, task, config)
    current().agree("what the run keeps", "" if kept is None else " ".join(kept.tensors))
    return StoredRun(config, method, best_epoch, read_history(folder), _plan(folder), kept)


def _plan(folder: Path) -> AnswerPlan | None:
    """Returns how the run answers; None where that was not found yet."""
    path = folder / ANSWERS_FILE
    return AnswerPlan.from_json(path.read_bytes(), str(path)) if path.is_file() else None


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
