"""Graphs that are loaded by name."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from headtail.datasets import synthetic
from headtail.datasets.ogb import DEFAULT_ROOT, read_ogb
from headtail.datasets.raw import RawGraph
from headtail.registry import Registry

# Loaders of OGB data take root and download, the others nothing.
Loader: TypeAlias = Callable[..., RawGraph]
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


@DATASETS.register("ogbl-collab")
def ogbl_collab(root: str | Path = DEFAULT_ROOT, download: bool = False) -> RawGraph:
    """OGB (--root): authors who write together, 235,868 nodes, hits@50; its training links need --drop-leaks.

    A link that repeats is dated by its first year.
    """
    return read_ogb("ogbl-collab", root, download)


@DATASETS.register("ogbl-ppa")
def ogbl_ppa(root: str | Path = DEFAULT_ROOT, download: bool = False) -> RawGraph:
    """OGB (--root): proteins that are associated, 576,289 nodes, hits@100; read without OGB's features.

    Those only name the species of a protein, so structural features take their place; structure_from=mf are the
    paper's.
    """
    return read_ogb("ogbl-ppa", root, download)


@DATASETS.register("ogbl-citation2")
def ogbl_citation2(root: str | Path = DEFAULT_ROOT, download: bool = False) -> RawGraph:
    """OGB (--root): papers that cite papers, 2,927,963 nodes, directed, dated by the citing paper, mrr."""
    return read_ogb("ogbl-citation2", root, download)


@DATASETS.register("ogbl-ddi")
def ogbl_ddi(root: str | Path = DEFAULT_ROOT, download: bool = False) -> RawGraph:
    """OGB (--root): drugs that interact, 4,267 nodes, no features, hits@20."""
    return read_ogb("ogbl-ddi", root, download)


@DATASETS.register("ogbl-vessel")
def ogbl_vessel(root: str | Path = DEFAULT_ROOT, download: bool = False) -> RawGraph:
    """OGB (--root): blood vessels of a mouse brain, 3,538,495 nodes; needs --metric hits@K.

    OGB's own metric is ROC-AUC, which headtail does not have. Its features are coordinates, as published.
    """
    return read_ogb("ogbl-vessel", root, download)
