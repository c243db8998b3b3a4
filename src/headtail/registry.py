"""One idiom for components that are chosen by name: encoders, samplers, negatives, objectives, data sets."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from headtail.errors import ConfigError, did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps names to components of one kind.

    The summary of a component is the first line of its docstring, so help texts and documentation tables
    are generated from the code.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Returns a decorator that files a component under `name`."""

        def file(component: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = component
            return component

        return file

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            raise ConfigError(f"unknown {self.kind} {name!r}; {did_you_mean(name, self._entries)}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def summaries(self) -> dict[str, str]:
        """Returns {name: first line of the component's docstring}."""
        return {name: (self._entries[name].__doc__ or "").strip().split("\n")[0] for name in self}
