"""Files that people name, looked for before anything large is imported: what is wrong with them is told at once."""

import os
from collections.abc import Iterable
from pathlib import Path

from headtail.errors import DataError, did_you_mean

# A folder with this file is a packed graph.
MANIFEST_FILE = "manifest.json"
TABLES, PLOTS = (".parquet", ".csv"), (".png", ".svg")


def exists(path: str | Path) -> bool:
    """Whether there is such a file or folder; a name too long for any file is none, unlike in Path.exists."""
    return os.path.exists(path)


def no_file(path: str | Path) -> DataError:
    """Returns what to say of a file that is not there."""
    return DataError(f"there is no file {path}")


def no_data(asked: str | Path, names: Iterable[str], where: str = "") -> DataError:
    """Returns what to say of a graph that is no file and not one of the `names`; `where` else it was looked for."""
    asked = str(asked)
    return DataError(f"there is no file {asked!r} and no data set of that name{where}; {did_you_mean(asked, names)}")


def check_files(paths: Iterable[str | Path]) -> None:
    """Refuses files that are not there."""
    for path in paths:
        if not exists(path):
            raise no_file(path)


def check_data(source: str | Path, names: Iterable[str]) -> None:
    """Refuses a graph that is neither one of the `names` of data sets, nor a packed graph, nor a file."""
    named = set(names)
    if isinstance(source, str) and source in named:
        return
    if not exists(source):
        raise no_data(source, named)
    if os.path.isdir(source) and not is_packed(Path(source)):
        raise DataError(f"{source} is a folder; name a file of links in it")


def check_split(valid: object, test: object) -> None:
    """Refuses half of a split that is given."""
    if (valid is None) != (test is None):
        raise DataError("only one of valid and test is given; a split needs both")


def is_packed(folder: Path) -> bool:
    """Whether a folder holds a packed graph."""
    # Unlike Path.is_file this takes a name too long for any file for what it is: no file.
    return os.path.isfile(folder / MANIFEST_FILE)


def check_table_file(path: Path) -> None:
    """Refuses to write a table that is neither Parquet nor CSV."""
    _check_written(path, TABLES, "tables")


def check_plot_file(path: Path) -> None:
    """Refuses to write a plot that is neither PNG nor SVG."""
    _check_written(path, PLOTS, "plots")


def _check_written(path: Path, suffixes: tuple[str, ...], what: str) -> None:
    if path.suffix.lower() not in suffixes:
        raise DataError(f"cannot write {path}: {what} are written as {' or '.join(suffixes)}, name the file so.")
    if path.is_dir():
        raise DataError(f"cannot write {path}: it is a folder.")
