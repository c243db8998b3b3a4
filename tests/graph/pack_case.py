"""What the tests of packed graphs share: a small graph in files, packed and read."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from headtail.datasets.synthetic import planted

NODES = 60


@dataclass(frozen=True)
class Files:
    """Links to train on with repeats and self-loops, held-out links, features and a node table, as files."""

    folder: Path
    frame: pd.DataFrame

    def path(self, name: str) -> Path:
        return self.folder / name


def write_files(folder: Path, named: bool = False, directed: bool = True) -> Files:
    """Writes links.csv, links.parquet, valid.csv, test.csv, x.npy, nodes.csv of one graph."""
    raw = planted(NODES, 3, degree=7.0 if directed else 9.0, noise=0.1, seed=1, directed=directed, dim=6)
    rng = np.random.default_rng(0)
    order = rng.permutation(raw.links.shape[1])
    frame = pd.DataFrame(raw.links.T[order], columns=["from", "to"])
    frame["year"] = rng.integers(2000, 2010, len(frame))
    train, valid, test = frame[:-60], frame[-60:-30], frame[-30:]
    # Every node is among the links to train on, so that both ways number the same ones.
    ring = pd.DataFrame({"from": range(NODES), "to": [(node + 7) % NODES for node in range(NODES)], "year": 1999})
    held = {tuple(sorted(pair)) for pair in pd.concat([valid, test])[["from", "to"]].itertuples(index=False)}
    ring = ring[[tuple(sorted(pair)) not in held for pair in ring[["from", "to"]].itertuples(index=False)]]
    loops = pd.DataFrame({"from": [3, 4], "to": [3, 4], "year": 2000})
    train = pd.concat([train, ring, loops, train[:40].assign(year=2005)], ignore_index=True)
    for name, part in (("links", train), ("valid", valid), ("test", test)):
        if named:
            part = part.assign(**{end: [f"n{node:03}" for node in part[end]] for end in ("from", "to")})
        part.to_csv(folder / f"{name}.csv", index=False)
        part.to_parquet(folder / f"{name}.parquet", index=False)
    np.save(folder / "x.npy", raw.features.astype(np.float64))
    nodes = [f"n{node:03}" if named else node for node in range(NODES)]
    pd.DataFrame({"id": nodes}).to_csv(folder / "nodes.csv", index=False)
    return Files(folder, train)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
