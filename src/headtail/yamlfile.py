"""Reads YAML of people: plain values only, and no more of them than settings can be."""

from pathlib import Path

import yaml

from headtail.errors import ConfigError

MOST_BYTES = 2**18
# Aliases repeat what they stand for: with each counted as often, thirty lines can mean a billion values.
MOST_VALUES = 10_000


def read_yaml(file: Path) -> object:
    """Returns what a YAML file holds: mappings, lists and plain values.

    Raises:
        ConfigError: the file cannot be read, is no YAML, or is too large for settings.
    """
    try:
        if file.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{file} has more than {MOST_BYTES:,} bytes, which no settings have; is it another file?")
        loader = yaml.SafeLoader(file.read_text(encoding="utf-8"))
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            if _values(node, {}, set()) > MOST_VALUES:
                raise ConfigError(f"{file} means more than {MOST_VALUES:,} values, aliases included; write fewer.")
            content: object = loader.construct_document(node)
            return content
        finally:
            loader.dispose()
    except OSError as error:
        raise ConfigError(f"cannot read settings {file}: {error.strerror}.") from error
    # No UTF-8, a date or number that there is not, or a tag on something that it does not fit.
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError, AttributeError, TypeError) as error:
        raise ConfigError(f"{file} is not valid YAML: {error}") from error


def _values(node: yaml.Node, known: dict[int, int], above: set[int]) -> int:
    """Counts the values below a node, those behind an alias every time that it is used."""
    if id(node) in above:
        raise ValueError("an alias stands for something that holds it")
    if id(node) not in known:
        below = node.value if isinstance(node, yaml.SequenceNode) else []
        if isinstance(node, yaml.MappingNode):
            below = [part for pair in node.value for part in pair]
        known[id(node)] = 1 + sum(_values(part, known, above | {id(node)}) for part in below)
    return known[id(node)]
