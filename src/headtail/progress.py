"""A bar for long work that is counted in steps; nothing where there is no terminal, or another rank shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[float], None]


@contextmanager
def counting(what: str, total: float) -> Iterator[Advance]:
    """Shows a bar on a terminal, on one rank alone; yields what to call with the steps that were just finished."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from headtail.ranks import current

    console = Console(stderr=True)
    silent = not console.is_terminal or not current().leads
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console, disable=silent, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
