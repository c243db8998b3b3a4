"""What a run keeps of the answers that it gives by default, so that it opens fast: written last, read where it fits.

Nothing depends on it: without the file, or with that of another version, a run is encoded when it first answers.
"""

import hashlib
from pathlib import Path

from headtail.config import Config
from headtail.errors import RunError
from headtail.files import file_digest, read_mapped, write_mapped
from headtail.graph.kept import Kept
from headtail.graph.task import LinkTask
from headtail.ranks import current
from headtail.run_files import ANSWERS_FILE, FINAL_FILE, MODEL_FILE, TABLES_FILE
from headtail.runs import portable_settings
from headtail.serving.answering import Answering
from headtail.serving.evidence import chosen_evidence

# To be raised whenever what is kept changes, or how it is made.
VERSION = 1
REMEDY = "restore it from a copy, or delete it: the run then makes anew what it held, whenever it is opened."


def keep_answers(folder: Path, answering: Answering) -> None:
    """Writes what takes long to make for answers, which all ranks make together, into the folder of a run."""
    if not answering.method.epochs:  # what learns nothing is quick to make
        return
    answers = answering.asked()
    _ = answers.scorer  # ranks encode together
    if current().leads and (found := answers.state()):
        write_mapped(folder / TABLES_FILE, found, _facts(folder, answering.method.task, answering.config))


def forget_answers(folder: Path) -> None:
    """Takes away what was chosen and kept for answers, before there are other weights."""
    for name in (ANSWERS_FILE, TABLES_FILE, FINAL_FILE):
        (folder / name).unlink(missing_ok=True)


def kept_answers(folder: Path, task: LinkTask, config: Config) -> Kept | None:
    """Returns what `keep_answers` wrote; None where there is nothing, or it is of other settings or another version.

    Raises:
        RunError: it is damaged, or of another run.
    """
    path = folder / TABLES_FILE
    if not path.is_file():
        return None
    tensors, facts = read_mapped(path, REMEDY)
    wanted = _facts(folder, task, config)
    if facts.get("version") == VERSION and facts.get("model") != wanted["model"]:
        raise RunError(f"{path} is not of the model in {folder / _model_file(folder)}; {REMEDY}")
    return Kept(tensors, str(path), REMEDY) if facts == wanted else None


def _facts(folder: Path, task: LinkTask, config: Config) -> dict[str, object]:
    """Returns what decides the answers: the model, whose file names the graph, the settings, and the links."""
    return {
        "version": VERSION,
        "model": file_digest(folder / _model_file(folder)),
        "settings": hashlib.blake2b(portable_settings(config).encode(), digest_size=16).hexdigest(),
        "evidence": chosen_evidence(task),
    }


def _model_file(folder: Path) -> str:
    """Returns the name of the weights that answer by default."""
    return FINAL_FILE if (folder / FINAL_FILE).is_file() else MODEL_FILE
