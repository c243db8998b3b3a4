"""Graphs that are loaded by name."""

from collections.abc import Callable
from typing import TypeAlias

from headtail.datasets import synthetic
from headtail.datasets.raw import RawGraph
from headtail.registry import Registry

Loader: TypeAlias = Callable[[], RawGraph]
DATASETS: Registry[Loader] = Registry("data set")


@DATASETS.register("debian")
def debian() -> RawGraph:
    """Debian's packages and what they depend on: 69,529 nodes, 353,426 dated links, split by release."""
    # Imported here: scikit-learn, which makes the text features, takes a second to import.
    from headtail.datasets.debian import debian as load

    return load()


@DATASETS.register("planted")
def planted() -> RawGraph:
    """A small synthetic graph of ten communities: 1,000 nodes, 6,000 links, for trying things out."""
    return synthetic.planted()
