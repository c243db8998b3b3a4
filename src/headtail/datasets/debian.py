"""The bundled graph: which Debian package depends on, recommends or suggests which, over four releases.

Training links are those of the releases of 2021 and 2023, validation links are new in 2025, test links new in
2026. `scripts/bundle_debian.py` writes the two bundled files.
"""

from importlib.resources import files

import numpy as np
import pandas as pd

from headtail.datasets.deltas import unpack_links, unpack_rows
from headtail.datasets.raw import RawGraph, RawSplit
from headtail.datasets.text import join_texts, text_features

BUNDLED = files("headtail.datasets") / "bundled"
GRAPH_FILE = "debian-graph.npz"
PACKAGES_FILE = "debian-packages.tsv.xz"


def debian(*, with_features: bool = True) -> RawGraph:
    """Debian's packages and what they depend on: 69,529 nodes, 353,426 dated links, a fixed split."""
    packages = debian_packages()
    with (BUNDLED / GRAPH_FILE).open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        valid, test = (arrays[part].astype(np.int64) for part in ("valid", "test"))
        split = RawSplit(
            valid=valid,
            test=test,
            valid_negatives=unpack_rows(arrays["valid_neg"], valid.shape[1]),
            test_negatives=unpack_rows(arrays["test_neg"], test.shape[1]),
        )
        links = unpack_links(arrays["train_degrees"], arrays["train_steps"])
        times = arrays["train_time"].astype(np.int64)
    features = None
    if with_features:
        features = text_features(join_texts(packages))
    return RawGraph(
        source="debian",
        num_nodes=len(packages),
        links=links,
        directed=True,
        names=pd.Index(packages["name"]),
        times=times,
        features=features,
        split=split,
        metric="mrr",
    )


def debian_packages() -> pd.DataFrame:
    """Returns name, section and one-line description of every package, in node order."""
    with (BUNDLED / PACKAGES_FILE).open("rb") as stream:
        # quoting=3: quotation marks in descriptions are just characters; a package may well be called "null".
        return pd.read_csv(
            stream, sep="\t", compression="xz", dtype=str, quoting=3, keep_default_na=False, encoding="utf-8"
        )
