"""Dimensions that a model's file leaves open, and the user's extents for them. Free of TVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.errors import OptionError

__all__ = ["ANY_RANK", "OpenInput", "static_shapes"]

ANY_RANK = "..."
"""Extents of an input whose file does not even give their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenInput:
    """Input of a model that is no parameter, with its extents."""

    name: str
    extents: tuple[int | str, ...]
    """Numbers, or names of open dimensions; the empty name for one without a name."""

    @property
    def open_dimensions(self) -> tuple[int, ...]:
        """Places of the open dimensions."""
        return tuple(i for i, extent in enumerate(self.extents) if isinstance(extent, str))

    def as_text(self) -> str:
        """Name and extents, as ``--input-shapes`` takes them."""
        return f"{self.name}:{_text(self.extents)}"


def static_shapes(
    model: str, inputs: Sequence[OpenInput], given: InputShapes
) -> dict[str, tuple[int, ...]]:
    """Shape of each input, from the file and the user.

    Dimensions with the same name have the same extent, so one of them gives it for all.
    """
    named = _named_extents(model, inputs, given)
    filled = []
    for each in inputs:
        extents: tuple[int | str, ...] = each.extents
        if each.name in given.shapes:
            extents = given.shapes[each.name]
        elif given.batch_size is not None and extents[:1] == ("",):
            extents = (given.batch_size, *extents[1:])
        extents = tuple(named.get(e, e) if isinstance(e, str) else e for e in extents)
        filled.append(OpenInput(name=each.name, extents=extents))
    if any(each.open_dimensions for each in filled):
        raise _open_error(model, [each for each in filled if each.open_dimensions])
    shapes = {each.name: tuple(map(int, each.extents)) for each in filled}
    firsts = {shapes[each.name][:1] for each in inputs if 0 in each.open_dimensions}
    if given.batch_size is not None and (given.batch_size,) not in firsts:
        raise OptionError(
            f"{model}: the batch size is {given.batch_size}, but shapes of inputs say all first "
            f"dimensions, {_listed(filled)}; leave out one of both"
        )
    return shapes


def _named_extents(model: str, inputs: Sequence[OpenInput], given: InputShapes) -> dict[str, int]:
    """Extents of open dimensions by name, from given shapes and batch size."""
    known = {each.name: each for each in inputs}
    named: dict[str, int] = {}
    for name, shape in given.shapes.items():
        if name not in known:
            raise OptionError(f"{model} has no input {name!r}; its inputs are {_listed(inputs)}")
        for symbol, extent in _fitted(model, known[name], shape):
            if named.setdefault(symbol, extent) != extent:
                raise OptionError(
                    f"{model}: dimension {symbol!r} is {named[symbol]} in one input and {extent} "
                    f"in {name!r}; give both the same extent"
                )
    if given.batch_size is None:
        return named
    firsts = [str(each.extents[0]) for each in inputs if 0 in each.open_dimensions]
    if not firsts:
        raise OptionError(
            f"{model} leaves no first dimension open, so there is no batch size to give; its "
            f"inputs are {_listed(inputs)}"
        )
    of_batch = {first: given.batch_size for first in firsts if first not in ("", ANY_RANK)}
    return of_batch | named


def _fitted(model: str, value: OpenInput, shape: tuple[int, ...]) -> Iterator[tuple[str, int]]:
    """Names of open dimensions with the extents that a shape gives them."""
    if value.extents == (ANY_RANK,):
        return
    pairs = list(zip(value.extents, shape, strict=False))
    if len(shape) != len(value.extents) or any(
        isinstance(extent, int) and extent != said for extent, said in pairs
    ):
        raise OptionError(
            f"{model}: input {value.name!r} cannot have the shape {_text(shape)}; the file says "
            f"{_text(value.extents)}"
        )
    for extent, said in pairs:
        if isinstance(extent, str) and extent:
            yield extent, said


def _open_error(model: str, inputs: Sequence[OpenInput]) -> OptionError:
    open_ones = [
        f"dimension {place} of {each.name!r}" + (f" ({symbol})" if symbol else "")
        for each in inputs
        for place in each.open_dimensions
        for symbol in (each.extents[place],)
    ]
    alone = all(each.open_dimensions == (0,) and each.extents != (ANY_RANK,) for each in inputs)
    batch = "--batch-size N, or " if alone else ""
    shapes = " ".join(each.as_text() for each in inputs)
    return OptionError(
        f"{model} leaves open {', '.join(open_ones)}; give {batch}--input-shapes {shapes!r} with "
        "a number in place of every name (in Python: batch_size, shapes)"
    )


def _listed(inputs: Sequence[OpenInput]) -> str:
    return " ".join(each.as_text() for each in inputs) or "none"


def _text(extents: Sequence[int | str]) -> str:
    return f"[{','.join(str(extent) or '?' for extent in extents)}]"
