"""Options of a ``tune`` as a file.

A file is TOML with a table for each noun of :class:`~tvm_ios.driver.options.TuneOptions`, and the
keys ``effort`` and ``time_budget``. A noun in a noun is a table in its table, such as
``[measure.mode]``. Missing keys have the values of the effort. Free of TVM, so that a bad file is
refused before anything is loaded.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from tvm_ios.driver.effort import Effort
from tvm_ios.driver.options import TuneOptions, with_changes
from tvm_ios.errors import OptionError
from tvm_ios.support.near_name import require_known
from tvm_ios.support.stored_value import UnreadableValueError
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.support.toml_tables import read_toml

__all__ = ["TOP_KEYS", "TuneConfig", "known_value"]

TOP_KEYS = ("effort", "time_budget")
"""Keys at the top of a file, outside of tables."""
KEYS_OF_NAMES = ("strategies", "endings", "libraries")
"""Keys whose values are a name or a list of names, which their noun reads."""

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
    time_budget: float | None = None
    """Seconds of the whole call."""

    def __post_init__(self) -> None:
        TimeBudget(self.time_budget)

    @property
    def tuning(self) -> str | None:
        """Kernel tuner: ``"autotvm"``, ``"auto_scheduler"``, or None."""
        return self.options.kernels.backend_for(None)

    @classmethod
    def load(cls, path: str | Path, effort: str | None = None) -> Self:
        """Configuration in a file, such as ``configs/tuned.toml``; arguments of :meth:`of_tables`.

        An OptionError names the file and what is wrong in it.
        """
        try:
            return cls.of_tables(read_toml(Path(path)), effort)
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(
                f"cannot read the configuration {path}: {error}; give a file such as "
                "configs/tuned.toml"
            ) from error
        except (OptionError, UnreadableValueError) as error:
            raise OptionError(f"{path}: {error}") from error

    @classmethod
    def of_tables(cls, content: Mapping[str, Any], effort: str | None = None) -> Self:
        """Configuration in tables that :mod:`tomllib` or :mod:`json` has read.

        An ``effort`` goes over the one in the tables, whose other keys go over what it sets.
        """
        # The tables lose keys below, and the caller's must not.
        tables = copy.deepcopy(dict(content))
        require_known(tables, (*TOP_KEYS, *_TABLES), "")
        named = tables.pop("effort", Effort.BALANCED.value)
        time_budget = tables.pop("time_budget", None)
        level = TuneOptions.of(named if effort is None else effort)
        nouns = {
            _TABLES[name]: _noun(getattr(level, _TABLES[name]), table, name)
            for name, table in tables.items()
        }
        return cls(
            options=replace(level, **nouns),
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
            "time_budget": self.time_budget,
        }


_TABLES = {"tuning" if noun == "kernels" else noun: noun for noun in get_type_hints(TuneOptions)}
"""Fields of ``TuneOptions``, by table of a file."""


def _noun(base: Noun, table: Any, name: str) -> Noun:
    """Dataclass with the values of a table, and of its nested tables, over its own."""
    if not isinstance(table, dict):
        raise OptionError(f"{name} is {table!r}; make it a table, [{name}]")
    hints = get_type_hints(type(base))
    require_known(table, tuple(hints), f"[{name}] ")
    inner = {
        key: _noun(getattr(base, key), value, f"{name}.{key}")
        for key, value in table.items()
        if is_dataclass(hints[key])
    }
    try:
        plain = {
            key: known_value(key, value, hints[key])
            for key, value in table.items()
            if key not in inner
        }
        return with_changes(base, {**plain, **inner})
    except OptionError as error:
        raise OptionError(f"[{name}] {error}") from error


def known_value(key: str, value: Any, hint: Any) -> Any:
    """Value of a file for a field of a type."""
    if key in KEYS_OF_NAMES:
        return tuple(value) if isinstance(value, list) else value
    if get_origin(hint) is Mapping:
        if not isinstance(value, dict):
            raise OptionError(f"{key} is {value!r}; make it a table")
        of_value = get_args(hint)[1]
        return {name: known_value(f"{key}.{name}", each, of_value) for name, each in value.items()}
    if isinstance(value, bool) and bool in (hint, *get_args(hint)):
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
