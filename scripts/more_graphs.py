"""Writes links of words and of pages as CSV: graphs of other kinds than those of the paper.

They are made from what some packages of Debian hold, unpacked with `dpkg -x PACKAGE.deb FOLDER`:

    python scripts/more_graphs.py wordnet   wordnet/usr/share/wordnet             wordnet.csv
    python scripts/more_graphs.py thesaurus mythes/usr/share/mythes/th_en_US_v2.dat thesaurus.csv
    python scripts/more_graphs.py pages     html                                  pages.csv

`wordnet-base` has the first, `mythes-en-us` the second; `html` is any folder of HTML files, such as
openjdk-17-doc, libboost1.81-doc, qtbase5-doc-html, python3.11-doc, cppreference-doc-en-html and postgresql-doc-15
unpacked side by side. Then, for example: headtail compare wordnet.csv --undirected --metric hits@50.
"""

import csv
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag

Links = Iterator[tuple[str, str]]

PARTS_OF_SPEECH = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
HREF = re.compile(r'href="([^"]+)"')


def wordnet(folder: Path) -> Links:
    """Sets of synonyms and what they point to: wider and narrower terms, parts, opposites."""
    for name in PARTS_OF_SPEECH:
        for line in (folder / f"data.{name}").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("  "):  # the licence
                continue
            fields = line.split("|")[0].split()
            head = _synset(fields[2], fields[0])
            pointers = 4 + 2 * int(fields[3], 16)
            for place in range(pointers + 1, pointers + 1 + 4 * int(fields[pointers]), 4):
                yield head, _synset(fields[place + 2], fields[place + 1])


def _synset(kind: str, offset: str) -> str:
    """Returns the name of a set of synonyms; satellite adjectives (s) are adjectives."""
    return ("a" if kind == "s" else kind) + offset


def thesaurus(file: Path) -> Links:
    """Words and the words that are listed beside them, in the format of MyThes."""
    lines = iter(file.read_text(encoding="utf-8", errors="replace").splitlines()[1:])
    for line in lines:
        word, meanings = line.rsplit("|", 1)
        for _ in range(int(meanings)):
            for entry in next(lines).split("|")[1:]:
                other = re.sub(r" \(.*\)$", "", entry).strip().lower()
                if other:
                    yield word, other


def pages(folder: Path) -> Links:
    """HTML files and the files that they link to."""
    files = {path.as_posix() for path in folder.rglob("*.htm*")}
    for name in sorted(files):
        for target in HREF.findall(Path(name).read_text(encoding="utf-8", errors="replace")):
            target = unquote(urldefrag(target)[0])
            if target and "://" not in target:
                other = os.path.normpath(os.path.join(os.path.dirname(name), target))
                if other in files:
                    yield name, other


MAKERS = {"wordnet": wordnet, "thesaurus": thesaurus, "pages": pages}


def main() -> None:
    if len(sys.argv) != 4 or sys.argv[1] not in MAKERS:
        sys.exit(__doc__)
    kind, source, target = sys.argv[1:]
    with Path(target).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        written = 0
        for link in MAKERS[kind](Path(source)):
            writer.writerow(link)
            written += 1
    print(f"{written:,} links written to {target}")


if __name__ == "__main__":
    main()
