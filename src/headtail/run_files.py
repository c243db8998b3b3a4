"""What lies in a run folder, and whether one may be read or written: told before anything large is imported."""

from pathlib import Path

from headtail.errors import HeadtailError, RunError

CONFIG_FILE, METRICS_FILE, CARD_FILE = "config.yaml", "metrics.jsonl", "README.md"
GRAPH_FILE, NODES_FILE = "graph.safetensors", "nodes.parquet"
CHECKPOINT_FILE, MODEL_FILE = "checkpoint.safetensors", "model.safetensors"
# What was learned from all links once the model was judged (`final`), and the checkpoint of that.
FINAL_FILE, FINAL_CHECKPOINT_FILE = "final.safetensors", "final-checkpoint.safetensors"
# How the run answers: candidates, trees, and what was chosen on the validation links.
ANSWERS_FILE = "answers.json"
# What takes long to make for answers.
TABLES_FILE = "answers.safetensors"
RUN_FILES = (
    *(CONFIG_FILE, METRICS_FILE, CARD_FILE, GRAPH_FILE, NODES_FILE, CHECKPOINT_FILE, MODEL_FILE),
    *(ANSWERS_FILE, TABLES_FILE, FINAL_FILE, FINAL_CHECKPOINT_FILE),
)


def check_run(folder: Path) -> None:
    """Refuses to read a folder that holds no finished run.

    Raises:
        RunError: it is no run folder, or its training has not finished, or its files lie elsewhere.
    """
    if not (folder / CONFIG_FILE).is_file():
        raise RunError(
            f"{folder} is not a run folder: it has no {CONFIG_FILE}. Train one: headtail train DATA --out {folder}"
        )
    if not (folder / MODEL_FILE).is_file():
        raise RunError(f"{folder} has no finished model yet; go on with: headtail train DATA --out {folder} --resume")
    refuse_ways_out(folder)


def check_folder(folder: Path | None, resume: bool, overwrite: bool) -> bool:
    """Refuses to write over something that is not asked to be replaced; returns whether there is a run to go on with.

    A run that was killed before its first epoch ended has nothing to lose: it may begin again, also without `resume`.
    """
    if folder is None:
        if resume:
            raise HeadtailError("resume needs the run folder to go on from (out, --out).")
        return False
    if folder.exists() and not folder.is_dir():
        raise HeadtailError(f"{folder} is a file; a run needs a folder.")
    begun, trained = ((folder / name).is_file() for name in (CONFIG_FILE, CHECKPOINT_FILE))
    learned = trained or (folder / MODEL_FILE).is_file()
    if resume and not trained and (learned or not begun):
        raise RunError(f"{folder} has no checkpoint to resume from; train without --resume.")
    if resume:
        refuse_ways_out(folder)
    if not resume and begun and learned and not overwrite:
        raise HeadtailError(
            f"{folder} already holds a run; go on with --resume, replace it with --overwrite, or choose another --out."
        )
    return resume and trained


def refuse_ways_out(folder: Path) -> None:
    """Refuses files of a run that are links to somewhere else.

    Raises:
        RunError: one is.
    """
    home = folder.resolve()
    for name in RUN_FILES:
        path = folder / name
        if path.is_symlink() and path.resolve().parent != home:
            raise RunError(f"{path} is a link that leads out of the run folder; put the file itself there.")
