"""Graphs that are loaded by name; what reads them is imported when one is asked for, so that names cost nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from headtail.registry import Registry

if TYPE_CHECKING:
    from headtail.datasets.raw import RawGraph

# Loaders of OGB data take root and download, the others nothing.
Loader: TypeAlias = "Callable[..., RawGraph]"
DEFAULT_ROOT = "dataset"  # OGB's own
DATASETS: Registry[Loader] = Registry("data set")


@DATASETS.register("debian")
def debian() -> "RawGraph":
    """Debian's packages and what they depend on: 69,529 nodes, 353,426 dated links, split by release."""
    from headtail.datasets.debian import debian as load

    return load()


@DATASETS.register("planted")
def planted() -> "RawGraph":
    """A small synthetic graph of ten communities: 1,000 nodes, 6,000 links, for trying things out."""
    from headtail.datasets.synthetic import planted as make

    return make()


@DATASETS.register("ogbl-collab")
def ogbl_collab(root: str | Path = DEFAULT_ROOT, download: bool = False) -> "RawGraph":
    """OGB (--root): authors who write together, 235,868 nodes, hits@50; its training links need --drop-leaks.

    A link that repeats is dated by its first year.
    """
    return _read_ogb("ogbl-collab", root, download)


@DATASETS.register("ogbl-ppa")
def ogbl_ppa(root: str | Path = DEFAULT_ROOT, download: bool = False) -> "RawGraph":
    """OGB (--root): proteins that are associated, 576,289 nodes, hits@100; read without OGB's features.

    Those only name the species of a protein, so structural features take their place; structure_from=mf are the
    paper's.
    """
    return _read_ogb("ogbl-ppa", root, download)


@DATASETS.register("ogbl-citation2")
def ogbl_citation2(root: str | Path = DEFAULT_ROOT, download: bool = False) -> "RawGraph":
    """OGB (--root): papers that cite papers, 2,927,963 nodes, directed, dated by the citing paper, mrr."""
    return _read_ogb("ogbl-citation2", root, download)


@DATASETS.register("ogbl-ddi")
def ogbl_ddi(root: str | Path = DEFAULT_ROOT, download: bool = False) -> "RawGraph":
    """OGB (--root): drugs that interact, 4,267 nodes, no features, hits@20."""
    return _read_ogb("ogbl-ddi", root, download)


@DATASETS.register("ogbl-vessel")
def ogbl_vessel(root: str | Path = DEFAULT_ROOT, download: bool = False) -> "RawGraph":
    """OGB (--root): blood vessels of a mouse brain, 3,538,495 nodes; needs --metric hits@K.

    OGB's own metric is ROC-AUC, which headtail does not have. Its features are coordinates, as published.
    """
    return _read_ogb("ogbl-vessel", root, download)


def _read_ogb(name: str, root: str | Path, download: bool) -> "RawGraph":
    from headtail.datasets.ogb import read_ogb

    return read_ogb(name, root, download)
