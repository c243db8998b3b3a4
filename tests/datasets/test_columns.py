"""Features of a node table: what each column is taken for, what is made of it, and what is said about it."""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

from headtail.datasets.columns import NodeFeatures, column_features
from headtail.datasets.columns_blocks import MOST_CATEGORY_COLUMNS, category_block, number_block
from headtail.datasets.columns_kinds import Categories, Numbers, Texts, Unused, judge_column
from headtail.datasets.debian import debian_packages
from headtail.datasets.tables import open_table
from headtail.datasets.text import join_texts, text_features
from headtail.errors import DataError

ROWS = 300
RNG = np.random.default_rng(0)
WORDS = np.array(["sound", "music", "codec", "parser", "library", "board", "chess", "card", "driver", "kernel", "font"])
NAN = float("nan")


def mixed_table() -> pd.DataFrame:
    """A table with every kind of column; the name of a column says what it should be taken for."""
    dates = pd.Timestamp("2020-02-01") + pd.to_timedelta(RNG.integers(0, 999, ROWS), unit="D")
    amounts = RNG.normal(size=ROWS)
    return pd.DataFrame(
        {
            "unused id": [f"n{row:03d}" for row in range(ROWS)],
            "number": amounts,
            "number with gaps": np.where(RNG.random(ROWS) < 0.2, NAN, amounts),
            "number whole": RNG.integers(0, 99, ROWS),
            "number truth": RNG.random(ROWS) < 0.3,
            "number date": dates,
            "category grade": RNG.integers(1, 6, ROWS),
            "category colour": RNG.choice(["red", "green", "blue"], ROWS),
            "category gaps": RNG.choice(["red", "blue", None], ROWS),
            "category code": [f"0{code}" for code in RNG.integers(100, 150, ROWS)],
            "text words": [" ".join(RNG.choice(WORDS, 4)) for _ in range(ROWS)],
            "text tags": ["|".join(RNG.choice(WORDS[:8], 3, replace=False)) for _ in range(ROWS)],
            "text names": [
                f"lib{WORDS[RNG.integers(len(WORDS))]}-{WORDS[RNG.integers(len(WORDS))]}{row}" for row in range(ROWS)
            ],
            "unused count": np.arange(ROWS) * 7 + 3,
            "unused constant": "same",
            "unused empty": [None] * ROWS,
        }
    )


TABLE = mixed_table()


def made(frame: pd.DataFrame, named: bool = False) -> NodeFeatures:
    table = open_table(frame)
    return column_features(table, table.columns[0], table.columns, named)


def kind_of(values: object, named: bool = False) -> str:
    table = open_table(pd.DataFrame({"x": values}))
    return type(judge_column(table, "x", *table.load(["x"]), named=named)).__name__


@pytest.mark.parametrize("form", ["frame", "csv", "tsv.gz", "parquet", "nullable", "arrow"])
def test_a_table_is_judged_alike_in_every_form(tmp_path: Path, form: str) -> None:
    source: Path | pd.DataFrame = tmp_path / f"nodes.{form}"
    if form == "csv":
        TABLE.to_csv(source, index=False)
    elif form == "tsv.gz":
        TABLE.to_csv(source, index=False, sep="\t")
    elif form == "parquet":
        TABLE.to_parquet(source)
    elif form == "nullable":
        source = TABLE.convert_dtypes()
    elif form == "arrow":
        source = TABLE.convert_dtypes(dtype_backend="pyarrow")
    else:
        source = TABLE
    table = open_table(source)
    loaded = zip(table.columns, table.load(table.columns), strict=True)
    found = {name: type(judge_column(table, name, values)) for name, values in loaded}
    kinds = {"number": Numbers, "category": Categories, "text": Texts, "unused": Unused}
    assert found == {name: kinds[name.split()[0]] for name in TABLE.columns}
    features = column_features(table, table.columns[0], table.columns).features
    assert features is not None
    assert np.allclose(features, made(TABLE).features, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("Unused", [hashlib.sha256(bytes([row])).hexdigest() for row in range(200)]),
        ("Unused", [f"user_{row}" for row in range(200)]),
        ("Unused", [f"{('author', 'paper')[row % 2]}-{row}" for row in range(200)]),
        ("Unused", [f"{'ABCDEFGHIJ'[row // 10]}{'KLMNOPQRST'[row % 10]}XY" for row in range(100)]),
        ("Unused", pd.array([5, 3, None, 9], dtype="Int64")),
        ("Unused", ["", None, " "]),
        ("Unused", ["NA", "null", "-"]),
        ("Unused", [[1], [2]]),
        ("Unused", [b"a", b"b"]),
        ("Unused", [True, True]),
        ("Unused", pd.Categorical(["a", "b", "c"])),
        ("Numbers", [1.5, 2.25, 3.0]),
        ("Numbers", ["1e3", "-2", "n/a", "+.5"]),
        ("Numbers", ["True", "false", "", "true"]),
        ("Numbers", pd.array([True, None, False], dtype="boolean")),
        ("Numbers", ["2020-01-01", "2021-05-31T12:00:00Z", ""]),
        ("Numbers", ["2020-01", "2021-05"]),
        ("Numbers", pd.to_datetime(["2020-01-01", None, "2022-03-04"], utc=True)),
        ("Numbers", pd.to_timedelta([1, 2, 4], unit="h")),
        ("Numbers", pd.array([1, 2, 1], dtype=pd.ArrowDtype(pa.decimal128(5, 2)))),
        ("Numbers", pd.array(pd.to_datetime(["2020-01-01", "2020-01-02"]), dtype=pd.ArrowDtype(pa.date32()))),
        ("Categories", ["red", "red", "blue", "blue", "lonely node"]),
        ("Categories", pd.Categorical(["a b", "a c", "a b", "a c"])),
        ("Categories", pd.Categorical([3, 5, 3, 5])),
        ("Categories", ["x", "x", None]),
        ("Categories", ["2020-01-01", "soon", "soon", "2020-01-01"]),
        ("Categories", ["none", "null", "none", "null", "many"]),
        ("Texts", ["red apple", "green apple", "blue sky", "grey sky"]),
        ("Texts", ["красная роза", "белая роза", "белая ночь", "красная площадь"]),
    ],
)
def test_kinds(kind: str, values: object) -> None:
    assert kind_of(values) == kind


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("Numbers", [3, 9, 4]),
        ("Texts", ["vim", "emacs", "nano"]),
        ("Categories", ["x1", "x1", "x2", "x2"]),
        ("Unused", ["same", "same"]),
    ],
)
def test_named_columns_are_used_even_if_they_look_like_ids(kind: str, values: list[object]) -> None:
    assert kind_of(values, named=True) == kind


def test_infinite_numbers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,size\na,1\nb,inf\nc,2\n")
    table = open_table(tmp_path / "n.csv")
    with pytest.raises(DataError, match=r"n\.csv, line 3: inf in column 'size' is no finite number.*--columns"):
        column_features(table, "id", table.columns)
    with pytest.raises(DataError, match=r"row 1 .*: -inf in column 'size'"):
        made(pd.DataFrame({"id": ["a", "b"], "size": [1.0, -np.inf]}))


def test_numbers_are_standardised_and_gaps_are_the_mean() -> None:
    values = np.array([[1.0, 4.0, NAN, 2.0, 2.5], [3.0, 1.0, 2.0, 5.0, 5.5]]).T
    block = number_block([Numbers("a", values[:, 0]), Numbers("b", values[:, 1])])
    filled = SimpleImputer().fit_transform(values)
    known = ~np.isnan(values[:, 0])
    expected = (filled[:, 0] - filled[known, 0].mean()) / filled[known, 0].std()
    assert np.allclose(block[:, 0], expected, atol=1e-6)
    assert np.allclose(
        block[:, 1:], StandardScaler().fit_transform(np.stack([~known, values[:, 1]], axis=1)), atol=1e-6
    )


def test_one_value_with_gaps_tells_only_where_gaps_are() -> None:
    block = number_block([Numbers("a", np.array([7.0, NAN, 7.0, NAN]))])
    assert block.ravel().tolist() == [-1, 1, -1, 1]


def test_heavy_tails_enter_by_their_logarithm_in_any_unit() -> None:
    sizes = np.random.default_rng(1).lognormal(0, 3, 2000)
    block = number_block([Numbers("size", sizes)])
    assert np.corrcoef(block[:, 0], np.log1p(sizes / np.median(sizes)))[0, 1] > 0.999
    for unit in (1e-9, 1e6, 1e200):
        assert np.allclose(number_block([Numbers("size", sizes * unit)]), block, atol=1e-4)
    even = np.random.default_rng(1).random(2000)
    assert abs(np.corrcoef(number_block([Numbers("even", even)])[:, 0], even)[0, 1]) > 0.99999


def test_an_outlier_stays_within_bounds() -> None:
    values = np.append(np.random.default_rng(0).normal(size=999), -1e300)
    block = number_block([Numbers("a", values), Numbers("b", np.where(np.arange(1000) == 5, NAN, 1.0))])
    assert np.isfinite(block).all()
    assert np.abs(block).max() <= 10


@pytest.mark.parametrize("values", [[1.0] * 99 + [np.nextafter(1, 2)], [5e-324] * 60 + [1e300], [0.0] * 99 + [5e-324]])
def test_numbers_at_the_limits_of_precision(values: list[float]) -> None:
    block = number_block([Numbers("a", np.array(values))])
    assert np.isfinite(block).all()
    assert np.abs(block).max() <= 10


def test_few_categories_have_a_column_each() -> None:
    colours = pd.Series(["red", "blue", "red", None, "blue", "once", "alone", "red"])
    table = open_table(pd.DataFrame({"colour": colours}))
    column = judge_column(table, "colour", *table.load(["colour"]))
    assert isinstance(column, Categories)
    grouped = colours.replace({"once": "rare", "alone": "rare"}).fillna("missing")
    expected = pd.get_dummies(grouped)[["blue", "red", "rare", "missing"]].to_numpy() * np.sqrt(4)
    assert np.allclose(category_block([column]), expected)
    two = category_block([column, column])
    assert np.allclose(two, np.concatenate([expected, expected], axis=1))  # √(8 columns / 2 of the table) = √4


@pytest.mark.parametrize("columns", [1, 5])
def test_many_categories_are_still_told_apart(columns: int) -> None:
    codes = np.random.default_rng(0).permutation(np.arange(3000) % 1000).astype(np.int64)
    block = category_block([Categories(str(place), np.roll(codes, place)) for place in range(columns)])
    assert block.shape == (3000, MOST_CATEGORY_COLUMNS)
    cosine = block @ block.T / MOST_CATEGORY_COLUMNS
    shared = sum(np.roll(codes, place)[:, None] == np.roll(codes, place) for place in range(columns)) / columns
    assert np.abs(cosine - shared).mean() < 0.1  # the share of columns in which two nodes agree
    assert np.abs(np.square(block).mean() - 1) < 0.05
    if columns == 1:
        assert cosine[shared == 1].min() > 0.999
        assert cosine[shared == 0].max() < 0.6


def test_categories_do_not_depend_on_the_order_of_rows() -> None:
    colours = RNG.choice([f"c{code}" for code in range(200)], 900)
    order = RNG.permutation(900)
    one, other = (made(pd.DataFrame({"id": range(900), "x": x})).features for x in (colours, colours[order]))
    assert one is not None
    assert np.array_equal(one[order], other)


def test_text_alone_is_what_text_features_make() -> None:
    frame = TABLE[["unused id", "text words", "text tags"]]
    expected = text_features(join_texts(frame[["text words", "text tags"]]))
    assert np.array_equal(made(frame).features, expected)


def test_blocks_weigh_the_same_and_all_entries_have_unit_mean_square() -> None:
    features = made(TABLE).features
    assert features is not None
    assert features.dtype == np.float32
    kinds = {kind: [name for name in TABLE.columns if name.startswith(kind)] for kind in ("text", "category", "number")}
    widths = [made(TABLE[["unused id", *names]]).features.shape[1] for names in kinds.values()]  # type: ignore[union-attr]
    assert sum(widths) == features.shape[1]
    blocks = np.split(features, np.cumsum(widths)[:-1], axis=1)
    lengths = [np.sqrt(np.square(block).sum(axis=1).mean()) for block in blocks]
    assert lengths == pytest.approx([np.sqrt(features.shape[1] / 3)] * 3, rel=0.1)
    assert np.square(features).mean() == pytest.approx(1, abs=0.1)


def test_the_same_numbers_every_time() -> None:
    assert np.array_equal(made(TABLE).features, made(TABLE.copy()).features)


def test_the_note_tells_what_became_of_each_column() -> None:
    frame = pd.DataFrame(
        {
            "id": range(40),
            "age": np.linspace(0, 1, 40),
            "team": ["red", "blue"] * 20,
            "code": np.arange(40) + 7,
            "odd": ["a", 1] * 20,
        }
    )
    assert made(frame).note == (
        "the DataFrame gave 3 feature columns: 2 from the categories of 'team', 1 from the numbers of 'age'; left out "
        "'code' (whole numbers that are all different, as of an id) and 'odd' (mixes types)"
    )
    wide = pd.DataFrame({"id": range(3), **{f"c{place}": [0.5, 1.5, place] for place in range(20)}})
    assert "of 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6' and 13 others" in made(wide).note


@pytest.mark.parametrize(
    ("frame", "note"),
    [
        (pd.DataFrame({"id": ["a", "b"]}), ""),
        (pd.DataFrame({"id": ["a"], "age": [3.5]}), "gave no features; left out 'age' (the same everywhere)"),
        (pd.DataFrame({"id": ["a", "b"], "x": [None, None]}), "gave no features; left out 'x' (empty)"),
    ],
)
def test_tables_that_tell_nothing(frame: pd.DataFrame, note: str) -> None:
    result = made(frame)
    assert result.features is None
    assert result.note.endswith(note)
    assert bool(result.note) == bool(note)


def test_debian_packages_have_text_and_sections() -> None:
    packages = debian_packages().iloc[::40]
    result = made(packages)
    assert "from the text of 'name' and 'description'" in result.note
    assert "from the categories of 'section'" in result.note
    assert "left out" not in result.note
