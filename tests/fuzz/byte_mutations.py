"""Damage that knows nothing of formats, and damage to text: each takes randomness and bytes, and returns bytes."""

import codecs
import random
import re
import struct
from collections.abc import Callable, Mapping

from nasty_values import INTEGERS, TEXTS

Mutation = Callable[[random.Random, bytes], bytes]


def _span(rng: random.Random, data: bytes, most: int = 64) -> tuple[int, int]:
    first = rng.randrange(len(data) + 1)
    return first, min(len(data), first + rng.randint(1, most))


def truncated(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def bits_flipped(rng: random.Random, data: bytes) -> bytes:
    spoiled = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 4, 32))):
        if spoiled:
            # Headers stand at the beginning or the end, and are small.
            near = rng.choice((len(spoiled), min(len(spoiled), 200)))
            place = rng.randrange(near) if rng.random() < 0.7 else len(spoiled) - 1 - rng.randrange(near)
            spoiled[place] ^= 1 << rng.randrange(8)
    return bytes(spoiled)


def piece_removed(rng: random.Random, data: bytes) -> bytes:
    first, last = _span(rng, data)
    return data[:first] + data[last:]


def piece_doubled(rng: random.Random, data: bytes) -> bytes:
    first, last = _span(rng, data)
    return data[:last] + data[first:last] * rng.choice((1, 1, 50)) + data[last:]


def piece_filled(rng: random.Random, data: bytes) -> bytes:
    first, last = _span(rng, data)
    return data[:first] + rng.choice((b"\x00", b"\xff", b"\x80")) * (last - first) + data[last:]


def noise_inserted(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.randbytes(rng.choice((1, 8, 200))) + data[place:]


def number_overwritten(rng: random.Random, data: bytes) -> bytes:
    """Puts a huge or negative length where one might stand."""
    number = rng.choice([value for value in INTEGERS if -(2**63) <= value < 2**64])
    wide = struct.pack("<Q", number % 2**64)[: rng.choice((2, 4, 8))]
    wide = wide if rng.random() < 0.7 else wide[::-1]
    place = rng.choice((0, rng.randrange(len(data) + 1), max(0, len(data) - rng.randint(1, 64))))
    return data[:place] + wide + data[place + len(wide) :]


def emptied(rng: random.Random, data: bytes) -> bytes:
    return b""


def tail_added(rng: random.Random, data: bytes) -> bytes:
    return data + rng.choice((b"\x00" * 100, b"\n\n\n", rng.randbytes(50), data))


def replaced_by_noise(rng: random.Random, data: bytes) -> bytes:
    return rng.randbytes(rng.choice((1, 10, 1000)))


BYTES: Mapping[str, Mutation] = {
    one.__name__: one
    for one in (
        truncated,
        bits_flipped,
        piece_removed,
        piece_doubled,
        piece_filled,
        noise_inserted,
        number_overwritten,
        emptied,
        tail_added,
        replaced_by_noise,
    )
}


def other_encoding(rng: random.Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace") + rng.choice(("", "é,ü\n", "日,本\n"))
    name = rng.choice(("utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "utf-7", "shift_jis"))
    return text.encode(name, "replace")


def mixed_encodings(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + "é".encode(rng.choice(("latin-1", "utf-16", "utf-8"))) + data[place:]


def marked(rng: random.Random, data: bytes) -> bytes:
    mark = rng.choice((codecs.BOM_UTF8, codecs.BOM_UTF8 * 2, codecs.BOM_UTF16_LE, codecs.BOM_UTF32_BE))
    return mark + data


def other_line_ends(rng: random.Random, data: bytes) -> bytes:
    end = rng.choice((b"\r\n", b"\r", b"\n\r", b"\x0b", b"\x0c", b"\xc2\x85", b"\xe2\x80\xa8"))
    return re.sub(b"\n", lambda found: end if rng.random() < 0.7 else found[0], data)


def quotes(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice((b'"', b'""', b'"""', b"'", b'"\n', b'",', b'"a""b"')) + data[place:]


def nul_bytes(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + b"\x00" * rng.choice((1, 100)) + data[place:]


def long_field(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    size = rng.choice((1_000, 200_000, 200_000, 10**7 if rng.random() < 0.1 else 1_000_000))
    return data[:place] + rng.choice((b"x", b"9", b" ", b",", b"\xc3\xa9")) * size + data[place:]


def field_replaced(rng: random.Random, data: bytes) -> bytes:
    """Replaces a run of letters and digits, such as an id, a number or a column's name."""
    fields = list(re.finditer(rb"[\w.+-]+", data))
    if not fields:
        return data
    field = rng.choice(fields)
    integers = [str(value) for value in INTEGERS]
    value = rng.choice((*TEXTS, *integers, "1.5", "nan", "1e400"))
    return data[: field.start()] + value.encode("utf-8", "surrogatepass") + data[field.end() :]


def line_removed(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


def lines_shuffled(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    rng.shuffle(lines)
    return b"\n".join(lines)


def other_separator(rng: random.Random, data: bytes) -> bytes:
    return data.replace(rng.choice((b",", b"\t", b" ")), rng.choice((b";", b"\t", b" ", b",", b"|", b",,")))


def many_columns(rng: random.Random, data: bytes) -> bytes:
    first, _, rest = data.partition(b"\n")
    separator = b"\t" if b"\t" in first else b","
    return first + separator * rng.choice((1, 3, 5_000)) + b"\n" + rest


def brackets(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice((b"[", b"{", b"{a: ", b"- ", b'{"a":')) * rng.choice((5, 3_000)) + data[place:]


TEXT: Mapping[str, Mutation] = {
    one.__name__: one
    for one in (
        other_encoding,
        mixed_encodings,
        marked,
        other_line_ends,
        quotes,
        nul_bytes,
        long_field,
        field_replaced,
        field_replaced,
        line_removed,
        lines_shuffled,
        other_separator,
        many_columns,
        brackets,
    )
}
