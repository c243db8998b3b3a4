"""Files that are written whole or not at all, and tensors in files without pickle."""

import errno
import glob
import hashlib
import json
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from headtail.errors import HeadtailError, RunError
from headtail.limits import refuse_beyond_memory

# How safetensors calls the types that are mapped, and where a mapped tensor begins: at a multiple of this, as tensors
# in memory do, since that decides how products are rounded.
MAPPED_TYPES = {torch.int64: "I64", torch.int32: "I32", torch.float32: "F32", torch.bfloat16: "BF16"}
ALIGNED_TO = 64
# What fills the room between mapped tensors begins with this.
_FILLER = "~"


def _read_umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


_UMASK = _read_umask()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`; when the block ends well, it takes the place of `path`.

    An error or a full disk leaves the old file as it was and removes the temporary one.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in leftovers(path, ".tmp"):
            left.unlink(missing_ok=True)
        _create(temporary)
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_UMASK)  # some writers make files that only their owner may read
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        raise HeadtailError(f"cannot write {path}: {_reason(error)}; the old file, if any, is unchanged.") from error
    finally:
        with suppress(OSError):  # an impossible path was told above
            temporary.unlink(missing_ok=True)


def leftovers(path: Path, suffix: str) -> Iterator[Path]:
    """Yields what processes that were killed left beside `path` while they wrote it: .NAME.PROCESS and the suffix."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{suffix}"):
        process = left.name.removesuffix(suffix).rpartition(".")[2]
        if process.isdecimal() and not _alive(int(process)):
            yield left


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


def _create(path: Path) -> None:
    """Creates a file that nobody else made: a link that someone put there would lead the writing elsewhere."""
    path.unlink(missing_ok=True)  # of a process of the same number that was killed
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _reason(error: Exception) -> str:
    full = "no space left" in str(error).lower()
    if full or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)):
        return "the disk is full, free some space and run the command again"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def file_digest(path: Path) -> str:
    """Returns a short hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, object]) -> None:
    """Writes tensors as safetensors, with JSON-able facts beside them, whole or not at all."""
    # Clones, because safetensors refuses tensors that share memory.
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        save_file(plain, temporary, metadata={"facts": json.dumps(dict(facts))})


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Reads what `write_tensors` wrote.

    Raises:
        RunError: the file is missing, damaged or not ours.
    """
    if not path.is_file():
        raise RunError(f"{path} does not exist; is {path.parent} a run folder written by headtail?")
    refuse_beyond_memory(str(path), path.stat().st_size)
    # Copies, for where a tensor lies in the file would decide how its products are rounded.
    with _opened(path, "restore it from a copy, or train again.") as (tensors, facts):
        return {name: tensor.clone() for name, tensor in tensors.items()}, facts


def write_mapped(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, object]) -> None:
    """Writes tensors as safetensors that are to be mapped, whole or not at all, and without a copy of those at hand."""
    header: dict[str, object] = {"__metadata__": {"facts": json.dumps(dict(facts))}}
    place, gaps = 0, [-tensor.nbytes % ALIGNED_TO for tensor in tensors.values()]
    for (name, tensor), gap in zip(tensors.items(), gaps, strict=True):
        end = place + tensor.nbytes
        kind = MAPPED_TYPES[tensor.dtype]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [place, end]}
        header[_FILLER + name] = {"dtype": "U8", "shape": [gap], "data_offsets": [end, end + gap]}
        place = end + gap
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % ALIGNED_TO)
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor, gap in zip(tensors.values(), gaps, strict=True):
            file.write(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
            file.write(bytes(gap))


def read_mapped(path: Path, remedy: str) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Maps what `write_mapped` wrote: nothing is read before it is needed.

    Raises:
        RunError: the file is damaged or not ours; `remedy` says what to do then.
    """
    with _opened(path, remedy) as (tensors, facts):
        return {name: tensor for name, tensor in tensors.items() if not name.startswith(_FILLER)}, facts


@contextmanager
def _opened(path: Path, remedy: str) -> Iterator[tuple[dict[str, Tensor], dict[str, object]]]:
    """Yields the tensors of a file, mapped, and its facts."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})["facts"])
            if not isinstance(facts, dict):
                raise ValueError("its facts are no mapping")
            yield {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise RunError(f"{path} is damaged ({error}); {remedy}") from error
