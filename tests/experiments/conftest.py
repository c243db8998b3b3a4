"""What tests of experiments share."""

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved, in order, to be looked at beside their files."""
    figures: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *arguments: object, **rest: object) -> None:
        figures.append(figure)
        save(figure, *arguments, **rest)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures
