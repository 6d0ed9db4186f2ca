"""Shapes of a schedule's picture, in inches from the top left corner."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BOX_HEIGHT", "BOX_WIDTH", "TAG_SIZE", "Band", "Frame", "Layout", "Point", "Wire"]

BOX_WIDTH = 1.02
BOX_HEIGHT = 0.34
TAG_SIZE = 0.22


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the page."""

    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Rectangle of a stage, with room for its label at the left."""

    stage: int
    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Frame around a group, or around all operators that a stage merges."""

    left: float
    top: float
    width: float
    height: float
    merge: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Line from ``start`` to ``end``, vertical at both ends."""

    start: Point
    end: Point
    arrow: bool
    """True if it ends at an operator that reads the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Shapes of a page."""

    width: float
    height: float
    bands: tuple[Band, ...]
    frames: tuple[Frame, ...]
    boxes: dict[int, Point]
    """Centre of each operator's box."""
    wires: tuple[Wire, ...]
    tags: tuple[tuple[int, Point], ...]
    """Operator and centre of each tag."""
