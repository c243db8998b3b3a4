"""The final model: learned again from every link, held-out ones too, when the one before it was judged.

It answers and is never judged: what it was made from is a view of all links, which evaluation refuses.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from headtail.config import Config
from headtail.errors import ConfigError, RunError
from headtail.graph.features import make_features
from headtail.graph.graph import Graph
from headtail.graph.packed.graph import PackedGraph
from headtail.graph.store import fingerprint
from headtail.graph.task import LinkTask
from headtail.methods import make_method
from headtail.ranks import current
from headtail.run_files import CONFIG_FILE, FINAL_CHECKPOINT_FILE, FINAL_FILE
from headtail.runs import portable_settings
from headtail.serving.answering import Answering
from headtail.training.checkpoint import CheckpointStore, load_model, save_model
from headtail.training.observer import Observer
from headtail.training.task_method import TaskMethod


def check_final(graph: Graph, config: Config) -> None:
    """Refuses what cannot be learned from all links, before anything takes time.

    Raises:
        ConfigError: the graph is packed.
    """
    if config.training.final and isinstance(graph, PackedGraph):
        raise ConfigError(
            f"{graph.source} is packed, and only its training links are laid out for learning; leave --final out."
        )


def final_method(task: LinkTask, config: Config, epochs: int) -> TaskMethod:
    """Returns the method, untrained, whose training links are all links of a task; for so many epochs."""
    view = task.serving_view
    training = config.training.model_copy(update={"epochs": epochs})
    config = config.model_copy(update={"training": training})
    whole = replace(
        task,
        split=replace(task.split, train=view.links),
        train_view=view,
        test_view=view,
        feature_maker=partial(make_features, task.graph, view, config),
    )
    return make_method(whole, config)


def learn_final(
    answering: Answering, epochs: int, folder: Path | None, observer: Observer, say: Callable[[str], None] | None
) -> None:
    """Has a judged method learn from all links of its task, where that is asked for, and go on where it was stopped.

    Args:
        epochs: that were best on validation.
        folder: of the run, where the checkpoint lies.

    Raises:
        KeyboardInterrupt: it was interrupted.
    """
    task, config = answering.method.task, answering.config
    if not config.training.final or not answering.method.epochs:
        return
    if say is not None and current().leads:
        say(f"the figures are known; now learning all links, held-out ones too, for {epochs} epochs.")
    method, store = final_method(task, config, epochs), None
    if folder is not None:
        stamp = f"{fingerprint(task)}, all links, {epochs} epochs"
        store = CheckpointStore(folder, stamp, portable_settings(config), FINAL_CHECKPOINT_FILE)
    progress = method.fit(None, observer, store, resume=store is not None and store.path.is_file())
    if progress.epoch < method.epochs:
        raise KeyboardInterrupt("learning all links was interrupted; the judged model is kept, go on with --resume.")
    answering.learned_finally(method)


def write_final(folder: Path, answering: Answering, epochs: int) -> None:
    """Writes what was learned from all links, if anything was, into the folder of a run."""
    if answering.final is not None and current().leads:
        stamp = fingerprint(answering.method.task)
        save_model(folder, answering.final.weights(), stamp, epochs, FINAL_FILE)


def read_final(folder: Path, task: LinkTask, config: Config, epochs: int) -> TaskMethod:
    """Returns what `write_final` wrote.

    Raises:
        RunError: that has not been learned yet, or is of another run.
    """
    if not (folder / FINAL_FILE).is_file():
        raise RunError(
            f"{folder} was judged, but has not learned all links yet; go on with: headtail train DATA --out {folder} "
            "--resume"
        )
    weights, _ = load_model(folder, fingerprint(task), FINAL_FILE)
    try:
        method = final_method(task, config, max(1, epochs))
        method.restore(weights)
    except RuntimeError as error:
        raise RunError(f"{folder / FINAL_FILE} does not fit {folder / CONFIG_FILE}: {error}") from error
    return method
