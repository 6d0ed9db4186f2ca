"""Options of a ``tune`` as a file.

A file is TOML with a table for each noun of :class:`~tvm_ios.driver.options.TuneOptions`, and a key
``time_budget``. The table ``tuning`` also names the tuner. A noun in a noun is a table in its
table, such as ``[measure.mode]``. Missing keys have their defaults. Free of TVM, so that a bad file
is refused before anything is loaded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar, get_type_hints

from tvm_ios.driver.options import TuneOptions
from tvm_ios.errors import OptionError
from tvm_ios.search.options import SearchOptions
from tvm_ios.support.near_name import did_you_mean
from tvm_ios.support.stored_value import UnreadableValueError
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.support.toml_tables import read_toml

__all__ = ["BACKEND_NAMES", "TuneConfig", "known_value", "require_known"]

BACKEND_NAMES = ("none", "autotvm", "auto_scheduler")
"""Names of kernel tuners in files and on the command line."""
NAMES_OF_MEMBERS = ("strategies", "endings", "libraries")
"""Keys whose values are names of enumeration members, which their noun reads."""

Noun = TypeVar("Noun")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneConfig:
    """Content of a configuration file.

    Raises
    ------
    OptionError
        If the time budget is no number above 0.

    Examples
    --------
    >>> config = TuneConfig.of_tables({"search": {"max_group_size": 2}})
    >>> config.options.search.max_group_size, config.tuning
    (2, None)
    """

    options: TuneOptions = field(default_factory=TuneOptions)
    tuning: str | None = None
    """Kernel tuner: ``"autotvm"``, ``"auto_scheduler"``, or None."""
    time_budget: float | None = None
    """Seconds of the whole call."""

    def __post_init__(self) -> None:
        TimeBudget(self.time_budget)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Configuration in a file, such as ``configs/quick.toml``."""
        try:
            return cls.of_tables(read_toml(Path(path)))
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(
                f"cannot read the configuration {path}: {error}; give a file such as "
                "configs/quick.toml"
            ) from error
        except (OptionError, UnreadableValueError) as error:
            raise OptionError(f"{path}: {error}") from error

    @classmethod
    def of_tables(cls, content: Mapping[str, Any]) -> Self:
        """Configuration in tables that :mod:`tomllib` or :mod:`json` has read."""
        # The tables lose keys below, and the caller's must not.
        tables = copy.deepcopy(dict(content))
        require_known(tables, ("time_budget", *_TABLES), "")
        time_budget = tables.pop("time_budget", None)
        for name, table in tables.items():
            if not isinstance(table, dict):
                raise OptionError(f"{name} is {table!r}; make it a table, [{name}]")
        backend = tables.get("tuning", {}).pop("backend", "none")
        if backend not in BACKEND_NAMES:
            raise OptionError(
                f"[tuning] backend is {backend!r}; choose from {', '.join(BACKEND_NAMES)}"
            )
        nouns = {
            noun: _noun(kind, tables.get(name, {}), name) for name, (noun, kind) in _TABLES.items()
        }
        return cls(
            options=TuneOptions(**nouns),
            tuning=None if backend == "none" else backend,
            time_budget=known_value("time_budget", time_budget, float | None),
        )

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of :func:`tvm_ios.tune`.

        A file may have options of tuning while nothing is tuned, or of another tuner than the one
        in use; they are left out.
        """
        kernels = self.options.kernels.used_by(self.tuning)
        return {
            "options": replace(self.options, kernels=kernels),
            "tuning": self.tuning,
            "time_budget": self.time_budget,
        }


_TABLES = {
    "tuning" if noun == "kernels" else noun: (noun, kind)
    for noun, kind in get_type_hints(TuneOptions).items()
}
"""Fields of ``TuneOptions`` and their nouns, by table of a file."""


def _noun(kind: type[Noun], table: Any, name: str) -> Noun:
    """Dataclass that a table describes, with its nested tables."""
    if not isinstance(table, dict):
        raise OptionError(f"{name} is {table!r}; make it a table, [{name}]")
    hints = get_type_hints(kind)
    known = ("backend", *hints) if name == "tuning" else tuple(hints)
    require_known(table, known, f"[{name}] ")
    inner = {
        key: _noun(hints[key], value, f"{name}.{key}")
        for key, value in table.items()
        if is_dataclass(hints[key])
    }
    make: Callable[..., Any] = SearchOptions.of if kind is SearchOptions else kind
    try:
        plain = {
            key: known_value(key, value, hints[key])
            for key, value in table.items()
            if key not in inner
        }
        made: Noun = make(**plain, **inner)
    except OptionError as error:
        raise OptionError(f"[{name}] {error}") from error
    return made


def require_known(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    """Refuse a table with an unknown key; ``where`` begins the message."""
    for key in table:
        if key not in known:
            meant = did_you_mean(key, known, ", ") or "."
            raise OptionError(f"{where}has no key {key!r}{meant} There are {', '.join(known)}")


def known_value(key: str, value: Any, hint: Any) -> Any:
    """Value of a file for a field of a type."""
    if key in NAMES_OF_MEMBERS:
        return tuple(value) if isinstance(value, list) else value
    if hint is bool and isinstance(value, bool):
        return value
    # Python takes true for an int, and 1 for no float.
    number = isinstance(value, int) and isinstance(0.5, hint)
    if isinstance(value, bool) or not (isinstance(value, hint) or number):
        wanted = getattr(hint, "__name__", None) or str(hint).removesuffix(" | None")
        raise OptionError(f"{key} is {value!r}; give {_KINDS.get(wanted, wanted)}")
    return value


_KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a string in quotes",
}
