"""Shapes of one model that lie in one program: which of them fits the inputs of a run. No TVM.

Each shape is a part of the program (:class:`~tvm_ios.core.parts.Part`), and one runs at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_ios.core.parts import MOST_PARTS, Part
from tvm_ios.errors import ExecutionError, OptionError

__all__ = ["fitting_shape", "shape_names", "shape_text"]


def shape_text(shapes: Mapping[str, Sequence[int]]) -> str:
    """Shapes of inputs as ``--input-shapes`` takes them: ``image:[1,3,224,224] mask:[1,128]``."""
    return " ".join(f"{name}:[{','.join(map(str, shape))}]" for name, shape in shapes.items())


def shape_names(shapes: Sequence[Mapping[str, tuple[int, ...]]]) -> list[str]:
    """Name of each shape of a model: the text of those inputs that differ between shapes.

    Raises
    ------
    OptionError
        If two are equal, they are of different inputs, or there are too few or too many.
    """
    if not 2 <= len(shapes) <= MOST_PARTS:
        raise OptionError(f"there are {len(shapes)} shapes; give 2 to {MOST_PARTS} of them")
    first = shapes[0]
    for each in shapes[1:]:
        if set(each) != set(first):
            raise OptionError(
                f"shapes are of one model, but inputs are {', '.join(first) or 'none'} here and "
                f"{', '.join(each) or 'none'} there; give several models to tune"
            )
    differing = [name for name in first if len({each[name] for each in shapes}) > 1]
    names = [shape_text({name: each[name] for name in differing}) for each in shapes]
    for place, name in enumerate(names):
        if name in names[:place]:
            told = shape_text(shapes[place])
            raise OptionError(f"the shape {told} is given twice; leave out one of both")
    return names


def fitting_shape(
    shapes: Sequence[Part], given: Mapping[str, tuple[int, ...]], current: Part
) -> Part:
    """Shape of a program whose inputs have the shapes that are given, the current one if it fits.

    Raises
    ------
    ExecutionError
        If no shape fits; the message lists those that are there.
    """
    for each in (current, *shapes):
        own = dict(zip(each.inputs, each.shapes, strict=True))
        if all(own.get(name) == shape for name, shape in given.items()):
            return each
    raise ExecutionError(
        f"no shape of this model fits {shape_text(given)}; it has "
        f"{' or '.join(each.name for each in shapes)}"
    )
