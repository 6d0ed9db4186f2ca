"""Schedules found for one place and run at another, where places are devices or batch sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tvm_ios_lab.figures.chart import Matrix
from tvm_ios_lab.harness.agreement import error_of
from tvm_ios_lab.harness.error_column import error_row, error_text

__all__ = ["FoundFor", "closing_row", "matrices"]

PlaceT = TypeVar("PlaceT", int, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFor(Generic[PlaceT]):
    """Latencies at one place, by the place that a schedule was found for."""

    own: PlaceT
    """Place where all of the schedules run."""
    ms: Mapping[PlaceT, float]
    told: Mapping[PlaceT, float]
    """Published milliseconds, by place; empty where nothing is published."""

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The last six cells of a row for each schedule.

        They are: found for, milliseconds, by how much the own one is faster, both as published,
        and the error of the model.
        """
        for place, ms in self.ms.items():
            told = self.told.get(place)
            yield (
                str(place),
                f"{ms:.3f}",
                f"{ms / self.ms[self.own] - 1:+.1%}",
                "-" if told is None else f"{told:.2f}",
                "-" if told is None else f"{told / self.told[self.own] - 1:+.1%}",
                error_text(self.error(place)),
            )

    def error(self, place: PlaceT) -> float | None:
        """Relative error of the model; None for the own schedule and for what was not published."""
        if place == self.own or place not in self.told:
            return None
        ratios = (each[place] / each[self.own] for each in (self.ms, self.told))
        return error_of(*ratios)


def closing_row(runs: Sequence[FoundFor[PlaceT]], *, width: int) -> list[tuple[str, ...]]:
    """The row of the mean error; no row where nothing is published."""
    return error_row((each.error(place) for each in runs for place in each.ms), width=width)


def matrices(
    runs: Mapping[str, Sequence[FoundFor[PlaceT]]], *, row_label: str, column_label: str
) -> tuple[Matrix, ...]:
    """Latencies as the paper has them, by title: a row for each place where schedules run."""
    return tuple(
        Matrix(
            title=title,
            row_label=row_label,
            column_label=column_label,
            rows=tuple(str(each.own) for each in rows),
            columns=tuple(map(str, rows[0].ms)),
            values=tuple(tuple(each.ms.values()) for each in rows),
            published=tuple(tuple(each.told.get(place) for place in each.ms) for each in rows),
        )
        for title, rows in runs.items()
        if rows
    )
