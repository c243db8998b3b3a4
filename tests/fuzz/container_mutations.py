"""Damage that keeps a file's own checksums right, so that it reaches the reader behind them."""

import gzip
import io
import json
import lzma
import random
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from byte_mutations import BYTES, TEXT, Mutation
from nasty_values import FLOATS, INTEGERS, TEXTS, as_json, nasty, spoiled

# ---- npy and npz ----

HEADERS = (
    "{{'descr': '{kind}', 'fortran_order': False, 'shape': (1000000000000,), }}",
    "{{'descr': '{kind}', 'fortran_order': False, 'shape': (1000000, 1000000), }}",
    "{{'descr': '{kind}', 'fortran_order': True, 'shape': (4294967296, 4294967296), }}",
    "{{'descr': '{kind}', 'fortran_order': False, 'shape': (-1, 3), }}",
    "{{'descr': '{kind}', 'fortran_order': False, 'shape': (10**9,), }}",
    "{{'descr': '{kind}', 'fortran_order': False, 'shape': 5, }}",
    "{{'descr': '{kind}', 'fortran_order': False, 'shape': (3.5,), }}",
    "{{'descr': '{kind}', 'shape': (3,), }}",
    "{{'descr': [('a', '{kind}'), ('b', '|O')], 'fortran_order': False, 'shape': (3,), }}",
    "{{'descr': '{kind}', 'fortran_order': False, 'shape': " + "(" * 300 + ")" * 300 + ", }}",
    "{{'descr': '{kind}', 'fortran_order': False, 'shape': " + "[" * 4000 + "]" * 4000 + ", }}",
    "__import__('os').abort()",
    "{{",
)
KINDS = ("<f8", "<i8", "|O", "<U1000000000", "<U0", "|V0", "|S0", ">i4", "<c16", "<M8[s]", "<f2", "|b1", "<f16", "zz")


def npy_with_header(header: str, body: bytes = b"\x00" * 64, version: int = 1) -> bytes:
    """Returns the bytes of an npy file with any text as header."""
    text = header.encode("latin-1") + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes((version, 0)) + size + text + body


def npy_of(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def other_header(rng: random.Random, data: bytes) -> bytes:
    return npy_with_header(rng.choice(HEADERS).format(kind=rng.choice(KINDS)), data[-80:], rng.choice((1, 1, 2)))


def other_array(rng: random.Random, data: bytes) -> bytes:
    """Replaces an array by one of another type or shape, or puts a nasty value into it."""
    array = np.load(io.BytesIO(data), allow_pickle=False)
    ways: tuple[Callable[[], np.ndarray], ...] = (
        lambda: array.astype(rng.choice(("f2", "f8", "i1", "u8", ">i4", "c16", "U5", "S5", "bool", "M8[s]", "O"))),
        lambda: array.reshape(-1),
        lambda: array[..., None],
        lambda: array.T,
        lambda: array[:0],
        lambda: np.array(rng.choice((*FLOATS, *INTEGERS[:6], "text", None))),
        lambda: np.array([{"a": 1}, [1, 2]], dtype=object),
        lambda: np.full(array.shape, rng.choice(FLOATS)),
        lambda: np.full(array.shape, rng.choice(INTEGERS[:8])),
    )
    try:
        made = rng.choice(ways)()
    except (ValueError, TypeError, OverflowError):
        return other_header(rng, data)
    if made.size and made.dtype.kind in "fiu" and rng.random() < 0.5:
        with np.errstate(all="ignore"):
            value = rng.choice((*FLOATS, *INTEGERS[:6])) if made.dtype.kind == "f" else rng.choice(INTEGERS[:6])
            made = np.array(made)
            made.reshape(-1)[rng.randrange(made.size)] = np.array(value).astype(made.dtype)
    return npy_of(made)


NPY: Mapping[str, Mutation] = {"other_header": other_header, "other_array": other_array}


def rezipped(inner: Callable[[random.Random, str, bytes], bytes]) -> Mutation:
    """Damages one member of an archive and packs it again with right checksums."""

    def mutate(rng: random.Random, data: bytes) -> bytes:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        chosen = rng.choice(sorted(members))
        members[chosen] = inner(rng, chosen, members[chosen])
        return zipped(members)

    return mutate


def zipped(members: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _array_inside(rng: random.Random, name: str, content: bytes) -> bytes:
    return rng.choice((other_header, other_array, BYTES["bits_flipped"], BYTES["truncated"]))(rng, content)


def bomb(size: int, name: str = "x.npy") -> bytes:
    """Returns an npz of a few hundred kilobytes that says, truly, that it unpacks to `size` bytes of zeros."""
    file = io.BytesIO()
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({size // 1000}, 1000), }}"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w", force_zip64=True) as out:
        out.write(npy_with_header(header, b""))
        for _ in range(size // 10**6):
            out.write(b"\x00" * 10**6)
    return file.getvalue()


def members_changed(rng: random.Random, data: bytes) -> bytes:
    """Removes, renames or adds members."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    content = members.pop(name)
    ways = ({}, {rng.choice((*TEXTS[15:], "../../x.npy", "/x.npy", "train.npy")): content}, {name: b"", "y.txt": b"x"})
    return zipped(members | rng.choice(ways), rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_STORED)))


NPZ: Mapping[str, Mutation] = {
    "array_inside": rezipped(_array_inside),
    "members_changed": members_changed,
}
PT: Mapping[str, Mutation] = {
    "member_inside": rezipped(
        lambda rng, name, content: rng.choice((BYTES["bits_flipped"], BYTES["piece_doubled"]))(rng, content)
    ),
    "members_changed": members_changed,
}

# ---- Parquet ----


def other_columns(rng: random.Random, data: bytes) -> bytes:
    """Writes the table again with one column of another type, with missing or nasty values, or twice."""
    table = pq.read_table(io.BytesIO(data))
    place = rng.randrange(table.num_columns)
    rows, name = table.num_rows, table.column_names[place]
    ways: tuple[Callable[[], pa.Array], ...] = (
        lambda: pa.nulls(rows),
        lambda: pa.array([None] * rows, pa.string()),
        lambda: pa.array([[1, 2]] * rows),
        lambda: pa.array([{"a": 1}] * rows),
        lambda: pa.array([b"\xff\xfe"] * rows),
        lambda: pa.array([rng.choice(FLOATS) for _ in range(rows)]),
        lambda: pa.array([rng.choice(TEXTS) for _ in range(rows)]),
        lambda: pa.array([rng.choice(TEXTS) for _ in range(rows)]).dictionary_encode(),
        lambda: pa.array([2**63 + row for row in range(rows)], pa.uint64()),
        lambda: pa.array([rng.choice((-1, 2**62, None)) for _ in range(rows)], pa.int64()),
        lambda: pa.array([rng.choice((-(2**60), 2**62)) for _ in range(rows)], pa.timestamp("us")),
        lambda: pa.array([rng.choice((-(2**31), 2**31 - 1)) for _ in range(rows)], pa.date32()),
        lambda: pa.array([2**62] * rows, pa.duration("s")),
        lambda: pa.array(range(rows), pa.int64()).cast(pa.decimal128(30, 5)),
        lambda: pa.array(["x" * rng.choice((10**4, 10**5))] * rows),
        lambda: pa.array([True] * rows),
    )
    column = rng.choice(ways)()
    table = table.set_column(place, rng.choice((name, name, name, *TEXTS)), column)
    if rng.random() < 0.1:
        table = table.slice(0, 0)
    file = io.BytesIO()
    pq.write_table(table, file, compression=rng.choice(("snappy", "zstd", "none", "gzip")))
    return file.getvalue()


def dictionary_bomb(entry: int, rows: int, columns: Sequence[str] = ("from", "to")) -> bytes:
    """Returns a small Parquet file of strings that unpack to `entry` · `rows` bytes a column."""
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * entry]))
    file = io.BytesIO()
    table = pa.table(dict.fromkeys(columns, column))
    pq.write_table(table, file, compression="zstd", store_schema=False)
    return file.getvalue()


def repeated_strings(rng: random.Random, data: bytes) -> bytes:
    names = pq.read_schema(io.BytesIO(data)).names
    return dictionary_bomb(rng.choice((10**5, 10**6)), rng.choice((10**5, 10**6)), names)


def footer_damaged(rng: random.Random, data: bytes) -> bytes:
    """Damages the footer alone, where counts, sizes and types stand."""
    size = min(struct.unpack("<I", data[-8:-4])[0], len(data) - 8) if len(data) > 12 else 0
    footer = data[len(data) - 8 - size : len(data) - 8]
    way = rng.choice((BYTES["bits_flipped"], BYTES["piece_filled"], BYTES["number_overwritten"]))
    return data[: len(data) - 8 - size] + way(rng, footer) + data[-8:]


PARQUET: Mapping[str, Mutation] = {
    "other_columns": other_columns,
    "footer_damaged": footer_damaged,
    "repeated_strings": repeated_strings,
}

# ---- safetensors ----


def header_changed(rng: random.Random, data: bytes) -> bytes:
    """Damages the header of a safetensors file: sizes, types, shapes, places, or the facts beside the tensors."""
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    if rng.random() < 0.5:
        facts = json.loads(header["__metadata__"]["facts"])
        header["__metadata__"]["facts"] = as_json(spoiled(rng, facts)).decode()
        text = json.dumps(header).encode()
    else:
        text = as_json(spoiled(rng, header))
    return struct.pack("<Q", len(text)) + text + data[8 + size :]


def length_overwritten(rng: random.Random, data: bytes) -> bytes:
    return struct.pack("<Q", rng.choice((2**60, 2**63, 2**64 - 1, 10**8, 10**8 + 1, 2**31, 0, 1))) + data[8:]


def tensors_changed(rng: random.Random, data: bytes) -> bytes:
    """Damages the numbers and leaves the header as it was."""
    size = struct.unpack("<Q", data[:8])[0]
    way = rng.choice((BYTES["bits_flipped"], BYTES["piece_filled"]))
    return data[: 8 + size] + way(rng, data[8 + size :])


SAFETENSORS: Mapping[str, Mutation] = {
    "header_changed": header_changed,
    "length_overwritten": length_overwritten,
    "tensors_changed": tensors_changed,
}

# ---- YAML and JSON lines ----


def billion_laughs(rng: random.Random, data: bytes) -> bytes:
    name = rng.choice(("epochs", "method", "training", "unknown"))
    lines = ["a0: &a0 [lol, lol]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 40))]
    return "\n".join((*lines, f"{name}: *a39")).encode() + (b"\n" + data if rng.random() < 0.3 else b"")


def tree_changed(rng: random.Random, data: bytes) -> bytes:
    try:
        return yaml.safe_dump(spoiled(rng, yaml.safe_load(data))).encode("utf-8", "replace")
    except (RecursionError, ValueError):
        return b"epochs: " + b"1" * 5000


def tag_added(rng: random.Random, data: bytes) -> bytes:
    tags = ("!!python/object/apply:os.abort []", "!!binary x", "!!timestamp 2024-99-99", "!!set {a, b}", "&a [*a]")
    return data + rng.choice(("\nepochs: ", "\n? ", "\n")).encode() + rng.choice(tags).encode()


YAML: Mapping[str, Mutation] = {
    **TEXT,
    "billion_laughs": billion_laughs,
    "tree_changed": tree_changed,
    "tag_added": tag_added,
}


def json_line_changed(rng: random.Random, data: bytes) -> bytes:
    lines = data.splitlines()
    if not lines:
        return as_json(nasty(rng))
    place = rng.randrange(len(lines))
    lines[place] = as_json(spoiled(rng, json.loads(lines[place])))
    return b"\n".join(lines)


JSONL: Mapping[str, Mutation] = {**TEXT, "json_line_changed": json_line_changed}

# ---- compressed text ----


def repacked(pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes]) -> Mapping[str, Mutation]:
    """Damages the text and packs it again."""

    def wrap(inner: Mutation) -> Mutation:
        return lambda rng, data: pack(inner(rng, unpack(data)))

    return {name: wrap(one) for name, one in (TEXT | {"truncated": BYTES["truncated"]}).items()}


def text_bomb(unpacked: int, row: bytes = b"1,2\n") -> bytes:
    """Returns a gzip file, a thousandth of `unpacked` bytes long, of the same row again and again."""
    block = row * (10**6 // len(row))
    return gzip.compress(row + block) + gzip.compress(block) * (unpacked // len(block))


GZ: Mapping[str, Mutation] = {
    **repacked(gzip.compress, gzip.decompress),
    "text_bomb": lambda rng, data: text_bomb(2 * 10**9, rng.choice((b"from,to,year\n", b"1,2,3\n"))),
}
XZ: Mapping[str, Mutation] = repacked(lambda data: lzma.compress(data, preset=0), lzma.decompress)
