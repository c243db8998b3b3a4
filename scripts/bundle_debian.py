"""Writes the bundled Debian graph from its source files.

    python scripts/bundle_debian.py FOLDER

FOLDER holds `debian.npz` (arrays num_nodes, train, train_time, valid, test, valid_neg, test_neg) and
`debian-packages.tsv.xz` (id, name, section, description in node order). Only the order of the training links
and of the negatives within a row changes; features are not bundled, they are made from the text when loading.
"""

import argparse
import io
import lzma
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headtail.datasets.debian import GRAPH_FILE, PACKAGES_FILE
from headtail.datasets.deltas import pack_links, pack_rows

TARGET = Path(__file__).resolve().parents[1] / "src/headtail/datasets/bundled"
# A fixed date makes two runs write the same bytes.
DATE = (2026, 1, 1, 0, 0, 0)


def pack(source: Path) -> dict[str, NDArray[np.generic]]:
    """Returns the arrays of the bundle, train links sorted by head, then tail."""
    with np.load(source, allow_pickle=False) as arrays:
        train = arrays["train"].astype(np.int64)
        order = np.lexsort((train[1], train[0]))
        degrees, steps = pack_links(train[:, order], int(arrays["num_nodes"]))
        return {
            "train_degrees": degrees,
            "train_steps": steps,
            "train_time": arrays["train_time"][order],
            "valid": arrays["valid"],
            "test": arrays["test"],
            "valid_neg": pack_rows(arrays["valid_neg"]),
            "test_neg": pack_rows(arrays["test_neg"]),
        }


def write_npz(path: Path, arrays: dict[str, NDArray[np.generic]]) -> None:
    """Writes an npz with LZMA members, which `numpy.load` reads like any other."""
    with zipfile.ZipFile(path, "w") as bundle:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", DATE)
            bundle.writestr(info, member.getvalue(), compress_type=zipfile.ZIP_LZMA)


def write_packages(source: Path, target: Path) -> None:
    """Writes name, section and description; the id column goes, for it is the row number."""
    with lzma.open(source, "rt", encoding="utf-8", newline="\n") as lines:
        text = "".join(line.split("\t", 1)[1] for line in lines)
    target.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def main() -> None:
    """Reads the folder given on the command line and writes both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of debian.npz and debian-packages.tsv.xz")
    parser.add_argument("--target", type=Path, default=TARGET, help="folder to write to")
    arguments = parser.parse_args()
    arguments.target.mkdir(parents=True, exist_ok=True)
    write_npz(arguments.target / GRAPH_FILE, pack(arguments.folder / "debian.npz"))
    write_packages(arguments.folder / "debian-packages.tsv.xz", arguments.target / PACKAGES_FILE)
    for name in (GRAPH_FILE, PACKAGES_FILE):
        print(f"{name}: {(arguments.target / name).stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
