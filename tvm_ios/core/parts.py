"""Parts of a network that was joined from several models: their names, inputs and outputs. No TVM.

A joined network is scheduled as any other. Its parts only say which inputs and outputs belong
together, so that they have names, may run alone, and are told apart in reports.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_ios.errors import OptionError
from tvm_ios.support.near_name import did_you_mean

__all__ = [
    "MOST_PARTS",
    "SEPARATOR",
    "Part",
    "input_name",
    "named_models",
    "output_names",
    "parts_named",
    "require_part_names",
    "require_shared",
]

SEPARATOR = "__"
"""Text between the name of a part and that of its input or output."""
MOST_PARTS = 31
"""Most parts of a network, which executors name by the bits of a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Part of a joined network: one of the models that it was made of."""

    name: str
    inputs: tuple[str, ...]
    """Inputs of the network that it reads: ``part__input``, or a shared one's name."""
    outputs: tuple[int, ...]
    """Numbers of its outputs among those of the network, in its order."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """Shapes of its inputs, where the network is :mod:`one model in several shapes
    <tvm_ios.core.shapes>` and this is one of them; else empty."""

    def as_text(self) -> str:
        """Line with the names of its inputs and outputs."""
        reads = ", ".join(self.inputs) or "no inputs"
        return f"part {self.name}: reads {reads}; gives {', '.join(output_names([self]))}"


def output_names(parts: Sequence[Part]) -> dict[str, int]:
    """Number of each output by its name: the part's where it has one, else ``part__0`` and on."""
    return {
        part.name if len(part.outputs) == 1 else f"{part.name}{SEPARATOR}{place}": number
        for part in parts
        for place, number in enumerate(part.outputs)
    }


def named_models(models: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """Models by the name of their part, which is a file's or a number where none is given."""
    if isinstance(models, Mapping):
        return {str(name): model for name, model in models.items()}
    stems = [
        _identifier(Path(model).stem) if isinstance(model, str | Path) else "model"
        for model in models
    ]
    return {
        f"{stem}_{stems[:place].count(stem)}" if stems.count(stem) > 1 else stem: model
        for place, (stem, model) in enumerate(zip(stems, models, strict=True))
    }


def _identifier(stem: str) -> str:
    """Text of a file's name that may begin the name of a Python argument."""
    plain = re.sub(r"\W|_", " ", stem, flags=re.ASCII).split()
    name = "_".join(plain) or "model"
    return name if name.isidentifier() else f"model_{name}"


def require_part_names(names: Sequence[str]) -> None:
    """Refuse names that arguments of a Python call cannot begin with, and too many of them.

    Raises
    ------
    OptionError
        If a name is no identifier, holds two underscores in a row or ends in one, or stands twice.
    """
    if not 2 <= len(names) <= MOST_PARTS:
        raise OptionError(f"there are {len(names)} models; give 2 to {MOST_PARTS} of them")
    for place, name in enumerate(names):
        if not name.isidentifier() or SEPARATOR in name or name.endswith("_"):
            raise OptionError(
                f"a part is named {name!r}; give letters, digits and single underscores between "
                "them, since its inputs are named part__input"
            )
        if name in names[:place]:
            raise OptionError(f"two parts are named {name!r}; give each a name of its own")


def input_name(part: str, name: str, share: Collection[str]) -> str:
    """Name in the network of a part's input, of which some are shared by all parts."""
    return name if name in share else f"{part}{SEPARATOR}{name}"


def require_shared(share: Collection[str], inputs: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse to share inputs that parts do not have in common; these are types by name, by part.

    Raises
    ------
    OptionError
        If an input to be shared is of several types, or in one part only.
    """
    for name in share:
        types = {part: each[name] for part, each in inputs.items() if name in each}
        if not types:
            known = {each for names in inputs.values() for each in names}
            there = ", ".join(sorted(known)) or "none"
            raise OptionError(
                f"input {name!r} is to be shared, but no part has it; inputs are {there}"
                f"{did_you_mean(name, known)}"
            )
        if len(types) == 1:
            raise OptionError(
                f"input {name!r} is to be shared, but only part {next(iter(types))!r} has it; "
                "leave it out of share"
            )
        if len(set(types.values())) > 1:
            told = ", ".join(f"{part}: {type_}" for part, type_ in types.items())
            raise OptionError(
                f"input {name!r} is to be shared, but its shapes or types differ ({told}); leave "
                "it out of share, or give the models the same"
            )


def parts_named(parts: Sequence[Part], names: str | Iterable[str]) -> tuple[Part, ...]:
    """Parts of these names; a single name may stand alone.

    Raises
    ------
    OptionError
        If there is no part of a name, or no name is given.
    """
    known = {part.name: part for part in parts}
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for name in wanted:
        if name not in known:
            there = f"parts are {', '.join(known)}" if known else "the network is one model"
            raise OptionError(f"there is no part {name!r}; {there}{did_you_mean(name, known)}")
    if not wanted:
        raise OptionError("parts is empty; name one, or leave it out to run all")
    return tuple(part for part in parts if part.name in wanted)
