"""Files that are written whole or not at all, and tensors in files without pickle."""

import errno
import glob
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from headtail.errors import HeadtailError, RunError
from headtail.limits import refuse_beyond_memory


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
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})["facts"])
            if not isinstance(facts, dict):
                raise ValueError("its facts are no mapping")
            # Copies, for where a tensor lies in the file would decide how its products are rounded.
            return {name: file.get_tensor(name).clone() for name in file.keys()}, facts  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise RunError(f"{path} is damaged ({error}); restore it from a copy, or train again.") from error
