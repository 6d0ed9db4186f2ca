"""Choices between ways to run a network, kept like prices: raced once, under what they depend on.

A choice is a fact of the profile database, under the same context as prices. It says which build
is worth making, so that a later call makes no other. The race that ends a call is kept whole, in
:mod:`tvm_ios.cost.known_races`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.database_use import Remembered
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.errors import DatabaseError

__all__ = ["BuildChoice", "KnownChoices"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildChoice:
    """Which of several ways to run a network is used."""

    kept: str
    """Name of the build that is used."""
    notes: tuple[str, ...]
    """How fast the others are, for people."""
    certain: bool
    """Whether it was raced on a quiet machine; a tie counts, for either way costs the same."""
    left_out: tuple[str, ...] = ()
    """Kernels that were found to be better without their tuning record, by workload."""
    operators: tuple[int, ...] = ()
    """Operators that it is about."""
    libraries: tuple[LibraryOperators, ...] = ()
    """Operators that libraries compute."""


class KnownChoices:
    """Choices that were made before, and are kept for later.

    Parameters
    ----------
    database
        Where they lie; None remembers nothing.
    context
        What they depend on besides the question.
    """

    def __init__(self, database: ProfileDatabase | None, context: ProfileContext) -> None:
        self._database = database
        self._subject = f"build choices {context.digest()}"

    def known(self, question: str) -> BuildChoice | None:
        """The choice of this question; None where nobody has made it."""
        found = self._found(question)
        if found is None:
            return None
        choice, day = found
        _LOG.info("%s: %r, as was found on %s", question, choice.kept, day)
        if self._database is not None:
            self._database.use.take(Remembered.CHOICE, question, day)
        return choice

    def keep(self, question: str, choice: BuildChoice) -> None:
        """Remember a choice, if it is certain; a database that cannot be written costs nothing."""
        if self._database is None:
            return
        told = "" if choice.certain else "; not kept, for the machine was not quiet"
        _LOG.info("%s: found now, %r%s", question, choice.kept, told)
        self._database.use.measure(Remembered.CHOICE, [question])
        if choice.certain:
            self._put(question, choice)

    def is_noted(self, what: str) -> bool:
        """Whether this was noted before, under the same conditions."""
        return self._found(what) is not None

    def note(self, what: str) -> None:
        """Note a thing that nothing was measured for, in the form of a choice."""
        self._put(what, BuildChoice(kept=what, notes=(), certain=True))

    def _found(self, question: str) -> tuple[BuildChoice, str] | None:
        """What was kept under a question, and the day of it."""
        if self._database is None:
            return None
        try:
            text = self._database.get_facts(self._subject, [question]).get(question)
            data: Any = None if text is None else json.loads(text)
            return None if data is None else (_read(data), str(data["raced"]))
        except (DatabaseError, ValueError, TypeError, KeyError):
            return None

    def _put(self, question: str, choice: BuildChoice) -> None:
        if self._database is None:
            return
        text = json.dumps(asdict(choice) | {"raced": time.strftime("%Y-%m-%d")}, sort_keys=True)
        with suppress(DatabaseError):
            # Only what cannot be read is ever replaced: nothing is chosen where a choice is known.
            self._database.put_facts(self._subject, {question: text}, replace=True)


def _whole(numbers: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(number) for number in numbers)


def _read(data: dict[str, Any]) -> BuildChoice:
    notes, left_out = data["notes"], data["left_out"]
    return BuildChoice(
        kept=str(data["kept"]),
        notes=tuple(f"{note} (raced on {data['raced']})" for note in notes),
        certain=True,
        left_out=tuple(map(str, left_out)),
        operators=_whole(data["operators"]),
        libraries=tuple(
            LibraryOperators(str(row["library"]), _whole(row["operators"]))
            for row in data.get("libraries", ())  # choices of other things do without
        ),
    )
