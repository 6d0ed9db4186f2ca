"""Budgets of a tuning as a file: how far the search goes, how stages are timed, what is tuned.

A file is TOML with the tables ``search``, ``measure`` and ``tuning``; what it leaves out has its
default. Free of TVM, so that a bad file is refused before anything is loaded.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self, TypeVar, get_type_hints

from tvm_ios.core.endings import EndingRule
from tvm_ios.core.schedule import Strategy
from tvm_ios.cost.sampling import MeasureOptions
from tvm_ios.errors import OptionError
from tvm_ios.search.options import SearchOptions
from tvm_ios.tuning.options import TuningOptions

__all__ = ["BACKEND_NAMES", "SearchLimits", "TuneConfig"]

BACKEND_NAMES = ("none", "autotvm", "auto_scheduler")
"""What tunes kernels, as files and the command line name it."""

Section = TypeVar("Section")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """How far the search for a schedule goes; names and meanings are those of ``tvm_ios.tune``.

    Raises
    ------
    OptionError
        If a value is out of range.
    """

    max_group_size: int = 3
    """The paper's r; 0 means no limit."""
    max_num_groups: int = 8
    """The paper's s; 0 means no limit."""
    strategies: frozenset[Strategy] = frozenset(Strategy)
    endings: EndingRule = EndingRule.COMPLETE
    time_budget: float | None = None
    """Seconds of search."""
    pad_channels: bool = True
    """Whether to try convolutions with channels padded to whole vectors."""
    pad_merged_kernels: bool = True
    """Whether convolutions of different kernel sizes may merge."""
    cudnn: bool = False
    """Whether cuDNN may compute convolutions on a GPU."""
    tf32: bool = False
    """Whether it may round float32 to TF32."""
    desired_layout: str | None = None
    """Layout of convolutions; None leaves it."""
    mixed_precision: bool = False
    """Whether products are computed in float16."""
    mixed_precision_acc_type: str = "float32"
    """What sums of products are taken in."""

    def __post_init__(self) -> None:
        SearchOptions(
            strategies=self.strategies,
            max_group_size=self.max_group_size,
            max_num_groups=self.max_num_groups,
            endings=self.endings,
            pad_merged_kernels=self.pad_merged_kernels,
        )
        if self.time_budget is not None and not self.time_budget > 0:
            raise OptionError(f"time_budget is {self.time_budget!r}; give seconds above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneConfig:
    """Everything a configuration file may say.

    Examples
    --------
    >>> config = TuneConfig.parse("search = {max_group_size = 2}")
    >>> config.search.max_group_size, config.tuning
    (2, None)
    """

    search: SearchLimits = field(default_factory=SearchLimits)
    measure: MeasureOptions = field(default_factory=MeasureOptions)
    """How stages are timed."""
    tuning: str | None = None
    """What tunes kernels: ``"autotvm"``, ``"auto_scheduler"``, or None."""
    tuning_options: TuningOptions = field(default_factory=TuningOptions)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file, such as ``configs/quick.toml``.

        Raises
        ------
        OptionError
            If the file cannot be read, or a key or a value is unfit; the message names both.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(
                f"cannot read the configuration {path}: {error}; give a file such as "
                "configs/quick.toml"
            ) from error
        try:
            return cls.parse(text)
        except OptionError as error:
            raise OptionError(f"{path}: {error}") from error

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read TOML.

        Raises
        ------
        OptionError
            If it is none, or a key or a value is unfit.
        """
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise OptionError(f"this is no TOML: {error}") from error
        _require_known(tables, ("search", "measure", "tuning"), "")
        for name, table in tables.items():
            if not isinstance(table, dict):
                raise OptionError(f"{name} is {table!r}; make it a table, [{name}]")
        tuning = dict(tables.get("tuning", {}))
        backend = tuning.pop("backend", "none")
        if backend not in BACKEND_NAMES:
            raise OptionError(
                f"[tuning] backend is {backend!r}; choose from {', '.join(BACKEND_NAMES)}"
            )
        return cls(
            search=_section(SearchLimits, tables.get("search", {}), "search"),
            measure=_section(MeasureOptions, tables.get("measure", {}), "measure", without="mode"),
            tuning=None if backend == "none" else backend,
            tuning_options=_section(TuningOptions, tuning, "tuning", besides="backend"),
        )

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of :func:`tvm_ios.tune`."""
        limits = {each.name: getattr(self.search, each.name) for each in fields(self.search)}
        return {
            **limits,
            "measure": self.measure,
            "tuning": self.tuning,
            "tuning_options": self.tuning_options,
        }


def _section(
    kind: type[Section],
    table: Mapping[str, Any],
    name: str,
    *,
    without: str = "",
    besides: str = "",
) -> Section:
    """One table as its dataclass."""
    hints = {key: hint for key, hint in get_type_hints(kind).items() if key != without}
    _require_known(table, (besides, *hints) if besides else tuple(hints), f"[{name}] ")
    try:
        return kind(**{key: _value(key, value, hints[key]) for key, value in table.items()})
    except OptionError as error:
        raise OptionError(f"[{name}] {error}") from error


def _require_known(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            meant = f", did you mean {close[0]!r}?" if close else ";"
            raise OptionError(f"{where}has no key {key!r}{meant} There are {', '.join(known)}")


def _value(key: str, value: Any, hint: Any) -> Any:
    """A value of the file as the field wants it."""
    if key == "strategies":
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise OptionError(f"strategies is {value!r}; give a list of names")
        return frozenset(_member(key, name, Strategy) for name in names)
    if key == "endings":
        return _member(key, value, EndingRule)
    if hint is bool and isinstance(value, bool):
        return value
    number = isinstance(value, int) and isinstance(0.5, hint)
    if isinstance(value, bool) or not (isinstance(value, hint) or number):
        wanted = getattr(hint, "__name__", None) or str(hint).removesuffix(" | None")
        raise OptionError(f"{key} is {value!r}; give {_KINDS.get(wanted, wanted)}")
    return value


def _member(key: str, value: Any, kind: Any) -> Any:
    try:
        return kind(value)
    except ValueError as error:
        names = ", ".join(repr(member.value) for member in kind)
        raise OptionError(f"{key} has {value!r}; choose from {names}") from error


_KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a string in quotes",
}
