"""Values of tables in TOML, checked; what is wrong is a `JobError` in one line."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from tvm_ios.driver.config import known_value
from tvm_ios.errors import JobError, OptionError
from tvm_ios.support.near_name import require_known

__all__ = ["checked", "member", "rows_of", "table_of"]

MemberT = TypeVar("MemberT", bound=Enum)


def checked(table: Mapping[str, Any], hints: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values of a table, each of the kind that ``hints`` gives its key."""
    require_known(table, tuple(hints), where)
    try:
        return {key: known_value(key, value, hints[key]) for key, value in table.items()}
    except OptionError as error:
        raise JobError(f"{where}{error}") from error


def member(kind: type[MemberT], value: Any, where: str) -> MemberT:
    """The member of an enum whose value this is."""
    for member in kind:
        if member.value == value:
            return member
    names = ", ".join(f'"{member.value}"' for member in kind)
    raise JobError(f"{where} is {value!r}; choose from {names}")


def table_of(value: Any, name: str) -> Mapping[str, Any]:
    """A table, and nothing else."""
    if not isinstance(value, dict):
        raise JobError(f"{name} is {value!r}; make it a table, [{name}]")
    return value


def rows_of(value: Any, name: str) -> list[Mapping[str, Any]]:
    """A list of tables, and nothing else."""
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise JobError(f"{name} is no list of tables; begin each with [[{name}]]")
    return value
