"""What input may ask for: no more memory than there is. A small file can claim or unpack to any size."""

from headtail.errors import DataError
from headtail.memory import available_bytes

# The rest is for what is made of the input, and for others.
USED_SHARE = 0.8


def refuse_beyond_memory(what: str, needed: int) -> None:
    """Refuses to begin what the machine cannot end.

    Args:
        what: names the input, and stands at the beginning of the sentence.
        needed: bytes that reading it takes at least.

    Raises:
        DataError: there is not that much memory.
    """
    spare = available_bytes()
    if needed > USED_SHARE * spare:
        raise DataError(
            f"{what} needs {amount(needed)} of memory, and {amount(spare)} are free; if it should be that large, "
            "use a machine with more memory"
        )


def amount(size: int) -> str:
    """Returns a number of bytes for people."""
    for unit, bytes_per in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if size >= bytes_per:
            return f"{size / bytes_per:,.1f} {unit}"
    return f"{size:,} bytes"
