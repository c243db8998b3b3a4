"""Data sets of a comparison: found by name or file, with the settings the paper has for them."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headtail.config import SECTION_OF
from headtail.datasets.catalog import DATASETS
from headtail.errors import ConfigError, DataError, did_you_mean
from headtail.experiments.variants import Settings, variant_named
from headtail.given import no_data
from headtail.yamlfile import read_yaml

if TYPE_CHECKING:
    from headtail.graph.graph import Graph

# docs/method.md, 4 – 6 and 8: what the paper publishes for its data sets.
PAPER_SETTINGS: dict[str, Settings] = {
    "ogbl-collab": {
        "epochs": 400,
        "learning_rate": 0.001,
        "fanout_output": 7,
        "fanout_inner": 2,
        "blocked": 0.5,
        "drop_leaks": True,
        "test_graph": "train+valid",
    },
    "ogbl-ppa": {
        "epochs": 50,
        "learning_rate": 0.01,
        "fanout_output": "all",
        "fanout_inner": 4,
        "blocked": 5 / 6,
        "structure_from": "mf",
    },
    "ogbl-citation2": {
        "epochs": 50,
        "learning_rate": 0.005,
        "fanout_output": 7,
        "fanout_inner": 2,
        "blocked": 0.5,
    },
}

PROTOCOL = ("drop_leaks", "test_graph", "structure_from")
# Settings that a comparison decides itself, and how.
DECIDED = {"method": "the methods are those of the table", "seed": "repeats count it up"}


@dataclass(frozen=True)
class DataSource:
    """Where a data set of a comparison is, and what it is called in results.

    Attributes:
        options: those of `headtail.load`, as pairs so that a source can be compared and sent to other processes.
        contents: a hash of the user's own files and how they are read, since the same name may stand for other
            links tomorrow; empty for data sets that a name alone fixes.
    """

    name: str
    place: str
    options: tuple[tuple[str, object], ...] = ()
    contents: str = ""

    def load(self) -> "Graph":
        from headtail.graph.load import load

        return load(self.place, **dict(self.options))


def find_data(asked: str, root: Path | None = None, download: bool = False) -> DataSource:
    """Finds a data set: a file, a name, or NAME.npz in `root`; `download` lets OGB's be fetched.

    Raises:
        DataError: there is none, with the nearest names.
    """
    if root is not None and (root / f"{asked}.npz").is_file():
        return DataSource(asked, str(root / f"{asked}.npz"))
    if asked in DATASETS:
        options: dict[str, object] = {}
        if asked.startswith("ogbl-"):
            options = ({"root": str(root)} if root else {}) | ({"download": True} if download else {})
        return DataSource(asked, asked, tuple(options.items()))
    if os.path.isfile(asked):
        return own_data(asked)
    in_root = [path.stem for path in root.glob("*.npz")] if root is not None and root.is_dir() else []
    where = "" if root is None else f", and no {asked}.npz in {root}"
    raise no_data(asked, [*DATASETS, *in_root], where)


def own_data(place: str, options: Mapping[str, object] | None = None) -> DataSource:
    """Returns a data set as the user describes it: a name or a file, and how to load it."""
    pairs = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in (options or {}).items())
    decisive = [(name, value) for name, value in pairs if name not in ("root", "download")]
    parts = [place, *(value for _, value in decisive)]
    contents = ""
    if decisive or os.path.isfile(place):
        hashes = [_hash(part) for part in parts]
        contents = hashlib.blake2b(repr([hashes, [name for name, _ in decisive]]).encode(), digest_size=8).hexdigest()
    name = Path(place).name
    return DataSource(name.split(".")[0] or name, place, pairs, contents)


def _hash(value: object) -> str:
    """Returns a hash of a file's content, or the value itself where it names no file."""
    if not isinstance(value, str | Path) or not os.path.isfile(value):
        return str(value)
    try:
        with open(value, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot read {value}: {error.strerror}.") from error


@dataclass(frozen=True)
class PerData:
    """Settings of each data set, and of methods on it, as a YAML file gives them."""

    settings: dict[str, Settings]
    methods: dict[str, dict[str, Settings]]

    def of(self, data: str, method: str, preset: str) -> tuple[Settings, Settings]:
        """Returns the settings for the data set, and those for the method on it.

        How long the paper trains on it belongs to the preset of that name; how it is judged belongs to the data.
        """
        published = PAPER_SETTINGS.get(data, {})
        if preset != "paper":
            published = {name: value for name, value in published.items() if name in PROTOCOL}
        return {**published, **self.settings.get(data, {})}, self.methods.get(data, {}).get(method, {})


def read_per_data(path: Path | None) -> PerData:
    """Reads settings per data set: `NAME: {epochs: 20, methods: {seal: {epochs: 2}}}`.

    Raises:
        ConfigError: not YAML, or an unknown setting or method.
    """
    if path is None:
        return PerData({}, {})
    content = read_yaml(path) or {}
    settings: dict[str, Settings] = {}
    methods: dict[str, dict[str, Settings]] = {}
    if not isinstance(content, dict) or not all(isinstance(part, dict) for part in content.values()):
        raise ConfigError(f"{path} must map data sets to their settings, for example 'debian: {{epochs: 20}}'.")
    for data, part in content.items():
        # Copies: data sets may share a mapping through YAML's aliases.
        own_settings = {name: value for name, value in part.items() if name != "methods"}
        of_methods = part.get("methods") or {}
        if not isinstance(of_methods, dict) or not all(isinstance(own, dict) for own in of_methods.values()):
            raise ConfigError(f"{path}, {data}: methods must map methods to their settings.")
        for method in of_methods:
            try:
                variant_named(str(method))
            except ConfigError as error:
                raise ConfigError(f"{path}, {data}: {error}") from error
        for name in [*own_settings, *(name for own in of_methods.values() for name in own)]:
            if name in DECIDED:
                raise ConfigError(f"{path}, {data}: {name} is not set per data set; {DECIDED[name]}.")
            if name not in SECTION_OF:
                raise ConfigError(f"{path}, {data}: unknown setting {name!r}; {did_you_mean(str(name), SECTION_OF)}")
        settings[str(data)], methods[str(data)] = own_settings, of_methods
    return PerData(settings, methods)
