"""Reads the link data sets of the Open Graph Benchmark from OGB's own files, with their official splits.

The folder of a data set is its name with "_" for "-": `ogbl_ddi` with `raw/` and `split/`. Training links are those
of the split. Nodes are called by OGB's numbers, link weights are not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headtail.datasets.arrays import npz_headers, read_npz_arrays
from headtail.datasets.catalog import DEFAULT_ROOT
from headtail.datasets.features import matrix_features
from headtail.datasets.ogb_download import download_ogb
from headtail.datasets.ogb_files import SplitPart, read_csv_matrix, read_pt, single_count
from headtail.datasets.raw import Floats, Ints, RawGraph, RawSplit
from headtail.errors import DataError

NUM_NODES, FEATURES, YEARS, ARRAYS = "num-node-list.csv.gz", "node-feat.csv.gz", "node_year.csv.gz", "data.npz"
PARTS = ("train", "valid", "test")
WHOLE_SPLIT = "split_dict.pt"


@dataclass(frozen=True)
class Layout:
    """What OGB ships for one data set.

    Attributes:
        metric: OGB's own; None where that is none of ours.
        splits: the folder of the official split below `split/`; the first of these that exists.
        directed: whether links have a direction. Such data ranks each link among tails of its own head.
        features: whether its node features are read.
        dated: what has a year: the training links, or nodes, whose links then have the year of their head.
        binary: whether nodes come as `raw/data.npz` rather than as compressed CSV.
    """

    metric: str | None
    splits: tuple[str, ...]
    directed: bool = False
    features: bool = False
    dated: Literal["links", "nodes"] | None = None
    binary: bool = False

    @property
    def node_files(self) -> list[str]:
        """The files below `raw/` that are read."""
        if self.binary:
            return [ARRAYS]
        return [NUM_NODES, *[FEATURES] * self.features, *[YEARS] * (self.dated == "nodes")]


LAYOUTS: dict[str, Layout] = {
    "ogbl-collab": Layout("hits@50", ("time",), features=True, dated="links"),
    # Its features say only which of 58 species a protein is of; structural ones from the links tell far more.
    "ogbl-ppa": Layout("hits@100", ("throughput",)),
    "ogbl-citation2": Layout("mrr", ("time",), directed=True, features=True, dated="nodes"),
    "ogbl-ddi": Layout("hits@20", ("target",)),
    # OGB judges it by ROC-AUC, which is no ranking metric. Its split was published under both names.
    "ogbl-vessel": Layout(None, ("random", "spatial"), features=True, binary=True),
}


def read_ogb(name: str, root: str | Path = DEFAULT_ROOT, download: bool = False) -> RawGraph:
    """Returns an OGB data set with its official split and negatives.

    Args:
        name: one of `LAYOUTS`.
        root: the folder that holds the data set's folder, or that folder itself.
        download: fetch it through the package `ogb` where its folder is missing.

    Raises:
        DataError: files are missing, damaged, or hold something else than OGB ships.
    """
    layout = LAYOUTS[name]
    folder = _folder(name, Path(root))
    if download and not folder.exists():
        download_ogb(name, folder)
    _refuse_missing(name, layout, folder, root)
    train, valid, test = _split_parts(_split_folder(layout, folder))
    links = train.links(layout.directed)
    num_nodes, features, years = _nodes(layout, folder / "raw")
    held_out = [part.links(layout.directed) for part in (valid, test)]
    negatives = [part.negatives(layout.directed) for part in (valid, test)]
    for part, nodes in zip((train, valid, test, valid, test), (links, *held_out, *negatives), strict=True):
        _refuse_strangers(nodes, num_nodes, part.source)
    times = None
    if layout.dated == "links":
        times = train.integers("year", (links.shape[1],))
    elif years is not None:
        times = years[links[0]]
    split = RawSplit(*held_out, *negatives)
    return RawGraph(name, num_nodes, links, layout.directed, None, times, features, split, layout.metric)


def _folder(name: str, root: Path) -> Path:
    below = root / name.replace("-", "_")
    return root if not below.exists() and (root / "split").is_dir() else below


def _split_folder(layout: Layout, folder: Path) -> Path:
    candidates = [folder / "split" / name for name in layout.splits]
    return next((path for path in candidates if path.is_dir()), candidates[0])


def _refuse_missing(name: str, layout: Layout, folder: Path, root: str | Path) -> None:
    split = _split_folder(layout, folder)
    wanted = [folder / "raw" / file for file in layout.node_files]
    if not (split / WHOLE_SPLIT).is_file():
        wanted += [split / f"{part}.pt" for part in PARTS]
    missing = [path.relative_to(folder).as_posix() for path in wanted if not path.is_file()]
    if not missing:
        return
    remedy = (
        "give the folder that holds it as root (--root), or fetch it with download=True (--download), or with OGB "
        f"itself: python -c \"from ogb.linkproppred import LinkPropPredDataset as D; D('{name}', root='{root}')\""
    )
    if folder.exists():
        remedy = (
            "the download is incomplete or of another data set: remove that folder, then fetch it again (--download)"
        )
    raise DataError(f"{name}: {folder} lacks {', '.join(missing)}; {remedy}")


def _split_parts(folder: Path) -> list[SplitPart]:
    """Returns train, valid and test, from one file (OGB 1.2.3 and later) or from three."""
    whole = folder / WHOLE_SPLIT
    if not whole.is_file():
        return [SplitPart.read(folder / f"{part}.pt") for part in PARTS]
    content = read_pt(whole)
    for part in PARTS:
        if not isinstance(content.get(part), Mapping):
            raise DataError(f"{whole} has no part {part!r}; OGB's split has {', '.join(PARTS)}")
    return [SplitPart(f"{whole}, {part}", content[part]) for part in PARTS]


def _nodes(layout: Layout, raw: Path) -> tuple[int, Floats | None, Ints | None]:
    """Returns the number of nodes, their features and their years."""
    if layout.binary:
        path = raw / ARRAYS
        headers = npz_headers(path)
        for key in ("num_nodes_list", "node_feat"):
            if key not in headers:
                raise DataError(f"{path} has no array {key!r}; it holds: {', '.join(sorted(headers))}")
        arrays = read_npz_arrays(path, ("num_nodes_list", "node_feat"))
        num_nodes = single_count(arrays["num_nodes_list"], f"{path}, num_nodes_list")
        return num_nodes, matrix_features(arrays["node_feat"], f"{path}, node_feat", num_nodes), None
    num_nodes = single_count(read_csv_matrix(raw / NUM_NODES, "int64"), str(raw / NUM_NODES))
    features = years = None
    if layout.features:
        matrix = read_csv_matrix(raw / FEATURES, "float32")
        features = matrix_features(matrix, str(raw / FEATURES), num_nodes)
    if layout.dated == "nodes":
        years = read_csv_matrix(raw / YEARS, "int64").reshape(-1)
        if len(years) != num_nodes:
            raise DataError(f"{raw / YEARS} holds {len(years)} years, but there are {num_nodes} nodes; one each is due")
    return num_nodes, features, years


def _refuse_strangers(nodes: Ints, num_nodes: int, source: str) -> None:
    if nodes.size and not 0 <= nodes.min() <= nodes.max() < num_nodes:
        raise DataError(
            f"{source} names the nodes {nodes.min()} to {nodes.max()}, but raw/ says that there are {num_nodes} nodes; "
            "are both of one data set?"
        )
