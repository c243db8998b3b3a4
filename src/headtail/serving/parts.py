"""Answers for many heads that outlive a kill: finished parts lie beside the file until they become it."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import torch

from headtail.files import write_text
from headtail.given import check_table_file
from headtail.ranks import current
from headtail.serving.tables import write_table

# Answers of this many heads are a part.
HEADS_PER_PART = 4096
KEY_FILE = "key.txt"

# Answers the heads first … last − 1 of a list.
Answers = Callable[[int, int], Iterator[pd.DataFrame]]


def write_in_parts(answers: Answers, heads: int, path: Path, key: str) -> int:
    """Writes the answers for so many heads, in their order; returns the number of rows, on the rank that writes.

    Parts that an earlier process finished are taken over if it had the same key.

    Args:
        answers: makes them, by all ranks together.
        heads: how many there are.
        path: the table, .parquet or .csv, which appears when it is complete.
        key: names all that decides the answers.
    """
    check_table_file(path)
    leads = current().leads
    firsts = range(0, heads, HEADS_PER_PART)
    if len(firsts) < 2:
        found = answers(0, heads)
        return write_table(found, path) if leads else sum(len(frame) for frame in found)
    folder = path.with_name(f".{path.name}.parts")
    parts = [folder / f"{number:06}.parquet" for number in range(len(firsts))]
    done = int(current().sum(torch.tensor(_finished(folder, parts, key) if leads else 0)))
    try:
        for part, first in list(zip(parts, firsts, strict=True))[done:]:
            frames = list(answers(first, min(first + HEADS_PER_PART, heads)))
            if leads:
                write_table(frames, part)
    except BaseException:
        if leads and not parts[0].is_file():  # there is nothing to go on with
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if not leads:
        return 0
    rows = write_table((pd.read_parquet(part) for part in parts), path)
    shutil.rmtree(folder, ignore_errors=True)
    return rows


def _finished(folder: Path, parts: list[Path], key: str) -> int:
    """Returns how many parts are there already; those of other answers go."""
    mark = folder / KEY_FILE
    digest = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    if not mark.is_file() or mark.read_text(encoding="utf-8") != digest:
        shutil.rmtree(folder, ignore_errors=True)
        write_text(mark, digest)
    return next((number for number, part in enumerate(parts) if not part.is_file()), len(parts))
