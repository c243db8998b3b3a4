"""A bar for long work that is counted in steps; nothing where there is no terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[float], None]


@contextmanager
def counting(what: str, total: float) -> Iterator[Advance]:
    """Shows a bar on a terminal; yields what to call with the steps that were just finished."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
