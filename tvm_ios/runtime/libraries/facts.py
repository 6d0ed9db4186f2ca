"""Facts that operator libraries find out of calls on a device: once, then from a store. No TVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from tvm_ios.errors import DatabaseError
from tvm_ios.runtime.libraries.protocol import FactStore

__all__ = ["find_facts", "known_facts"]

Sought = TypeVar("Sought")


def find_facts(
    store: FactStore | None,
    subject: str,
    sought: Mapping[str, Sought],
    find: Callable[[Sought], tuple[str, bool]],
) -> dict[str, str]:
    """The fact about each thing sought, by its name.

    ``find`` returns a fact that the store does not have, and True if it is worth keeping. A store
    that cannot be used is one without facts.
    """
    facts = known_facts(store, subject, sought)
    found: dict[str, str] = {}
    for name, each in sought.items():
        if name in facts:
            continue
        facts[name], measured = find(each)
        if measured:
            found[name] = facts[name]
    if found and store is not None:
        with suppress(DatabaseError):
            store.put_facts(subject, found)
    return facts


def known_facts(store: FactStore | None, subject: str, names: Iterable[str]) -> dict[str, str]:
    """The facts about these names that the store has; none where it cannot be used."""
    wanted = tuple(names)
    if wanted and store is not None:
        with suppress(DatabaseError):
            return dict(store.get_facts(subject, wanted))
    return {}
