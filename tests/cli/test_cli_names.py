"""Names on the command line: with commas, between quotation marks, from standard input."""

import io
from pathlib import Path

import pytest
from cli_case import SMALL, Cli, community_links

from headtail.cli import main
from headtail.cli.given_names import GivenNames, given_names
from headtail.errors import DataError, HeadtailError

ODD = ["a,b", 'the "old" one', "x, y", "a", "b"]


def type_in(monkeypatch: pytest.MonkeyPatch, typed: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed), encoding="ascii"))


@pytest.fixture(scope="module")
def odd_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a graph some of whose nodes have commas and quotation marks in their names."""
    folder = tmp_path_factory.mktemp("odd")
    names = {f"p{place:02}": name for place, name in enumerate(ODD)}
    rows = [(names.get(head, head), names.get(tail, tail)) for head, tail in community_links()]
    (folder / "links.tsv").write_text("".join(f"{head}\t{tail}\n" for head, tail in [("from", "to"), *rows]))
    assert main(["train", str(folder / "links.tsv"), "--out", str(folder / "run"), *SMALL]) == 0
    return folder / "run"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        (" a , b ", ["a", "b"]),
        ("a,,b,", ["a", "b"]),
        ('"a,b",c', ["a,b", "c"]),
        ('a, "b, c"', ["a", "b, c"]),
        ('"say ""so""",c', ['say "so"', "c"]),
        ('5" disk,c', ['5" disk', "c"]),
        ("it's,c", ["it's", "c"]),
    ],
)
def test_names_stand_between_commas(text: str, names: list[str]) -> None:
    given = given_names("--heads", text, None)
    assert given is not None
    assert given.among(()) == given.names == names
    assert given.among({text.strip()}) == [text.strip()]


def test_names_that_are_lines_are_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = 'a,b\n\n  "c"  \r\nd\n'
    (tmp_path / "names.txt").write_bytes(lines.encode())
    wanted = GivenNames(["a,b", '"c"', "d"])
    assert given_names("--heads", None, tmp_path / "names.txt") == wanted
    for text, file in (("-", None), (None, Path("-"))):
        type_in(monkeypatch, lines.encode())
        assert given_names("--heads", text, file) == wanted
    type_in(monkeypatch, "größe\n".encode())
    assert given_names("--heads", "-", None) == GivenNames(["größe"])
    assert given_names("--heads", None, None) is None


@pytest.mark.parametrize(
    ("text", "typed", "message"),
    [
        ("", b"", "--heads names no node"),
        (" , ", b"", "--heads names no node"),
        ('""', b"", "--heads names no node"),
        ("-", b"", "--heads names no node"),
        ("-", b" \n\n", "--heads names no node"),
        ("-", b"\xff\xfe", "standard input is not UTF-8 text; it should hold a node name per line"),
        ('"a,b', b"", "cannot be split at its commas"),
        ('"a"b,c', b"", "cannot be split at its commas"),
        ("a\nb", b"", "cannot be split at its commas"),
    ],
)
def test_what_names_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, text: str, typed: bytes, message: str) -> None:
    type_in(monkeypatch, typed)
    with pytest.raises(DataError, match=message):
        given_names("--heads", text, None)


def test_ranks_do_not_share_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    type_in(monkeypatch, b"a\n")
    with pytest.raises(HeadtailError, match="several ranks cannot share standard input"):
        given_names("--heads", "-", None)


@pytest.mark.slow
def test_heads_with_commas_are_answered(
    cli: Cli, odd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def heads(*arguments: object) -> list[str]:
        answer = cli("recommend", odd_run, *arguments, "-k", "1", "--json")
        assert answer.code == 0, answer
        return [link["head"] for link in answer.json["links"]]

    assert heads("--heads", "a,b") == ["a,b"]  # one node's name, though there are nodes a and b too
    assert heads("--heads", "x, y") == ["x, y"]
    assert heads("--heads", "b,a") == ["b", "a"]
    assert heads("--heads", '"a,b",a, "x, y"') == ["a,b", "a", "x, y"]
    assert heads("--heads", 'the "old" one') == ['the "old" one']
    (tmp_path / "heads.txt").write_text("\n".join(ODD))
    assert heads("--heads-file", tmp_path / "heads.txt") == ODD
    for arguments in (("--heads", "-"), ("--heads-file", "-")):
        type_in(monkeypatch, "\n".join(ODD).encode())
        assert heads(*arguments) == ODD
    answer = cli("recommend", odd_run, "--heads", "a,c")
    assert (answer.code, "'c'" in answer.err) == (2, True)
