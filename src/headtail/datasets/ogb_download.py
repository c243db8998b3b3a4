"""Fetches OGB's data through the package `ogb`, which knows the addresses."""

import contextlib
import importlib
import importlib.util
import sys
import zipfile
from pathlib import Path

import pandas as pd

from headtail.errors import DataError


def download_ogb(name: str, folder: Path) -> None:
    """Downloads and unpacks a data set into `folder`, which does not exist yet.

    Raises:
        DataError: `ogb` is not installed or does not know the data set, or the download fails.
    """
    found = importlib.util.find_spec("ogb")
    if found is None or not found.submodule_search_locations:
        raise DataError("downloading needs the package ogb; install it: pip install 'headtail[ogb]'")
    # Importing ogb.linkproppred for this file would import every graph library that is installed.
    master = Path(found.submodule_search_locations[0]) / "linkproppred" / "master.csv"
    facts = pd.read_csv(master, index_col=0, keep_default_na=False)
    if name not in facts:
        raise DataError(f"the installed package ogb does not know {name}; upgrade it: pip install -U ogb")
    url, unpacked = str(facts[name]["url"]), str(facts[name]["download_name"])
    tools = importlib.import_module("ogb.utils.url")
    place = folder.parent
    try:
        # Stdout belongs to answers, some of which programs read.
        with contextlib.redirect_stdout(sys.stderr):
            archive = Path(tools.download_url(url, str(place)))
            try:
                tools.extract_zip(str(archive), str(place))
            finally:
                archive.unlink()  # a damaged one would be taken for the download next time
        (place / unpacked).rename(folder)
    except (OSError, RuntimeError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{name} could not be downloaded from {url} to {place}: {error}; check the network, or unpack the archive "
            f"yourself as {folder}"
        ) from error
