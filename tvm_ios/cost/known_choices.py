"""Choices between ways to run a network, stored like prices: raced once for equal conditions.

A choice is a fact of the profile database, under the same context as prices. It says which build is
worth making, so a later call makes no other. The race that ends a call is stored whole, in
:mod:`tvm_ios.cost.known_races`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.database_use import Remembered
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.errors import DatabaseError
from tvm_ios.support.json_nouns import noun_from
from tvm_ios.support.stored_value import UnreadableValueError, parse_json

__all__ = ["BuildChoice", "KnownChoices"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildChoice:
    """Choice among several ways to run a network, with its reasons."""

    kept: str
    """Name of the build that is used."""
    notes: tuple[str, ...]
    """Lines for people on how fast the other builds are."""
    certain: bool
    """True if raced on a quiet machine; a tie counts, since either build costs the same."""
    left_out: tuple[str, ...] = ()
    """Workloads of kernels that are better without their tuning record."""
    operators: tuple[int, ...] = ()
    """Operators that the choice is about."""
    libraries: tuple[LibraryOperators, ...] = ()
    """Operators that operator libraries compute."""
    speedups: Mapping[str, float] = field(default_factory=dict)
    """Times as fast as the first build of a race, by other build; empty for choices by prices."""


class KnownChoices:
    """Earlier choices in a profile database, and a place for new ones.

    Choices depend on the context, besides the question. None is remembered without a database.
    """

    def __init__(self, database: ProfileDatabase | None, context: ProfileContext) -> None:
        self._database = database
        self._subject = f"build choices {context.digest()}"

    def known(self, question: str) -> BuildChoice | None:
        """Choice for a question; None where nobody has made it."""
        found = self._found(question)
        if found is None:
            return None
        choice, day = found
        _LOG.info("%s: %r, as was found on %s", question, choice.kept, day)
        if self._database is not None:
            self._database.use.take(Remembered.CHOICE, question, day)
        return choice

    def keep(self, question: str, choice: BuildChoice) -> None:
        """Store a choice, if it is certain; a database that cannot be written is no error."""
        if self._database is None:
            return
        told = "" if choice.certain else "; not kept, for the machine was not quiet"
        _LOG.info("%s: found now, %r%s", question, choice.kept, told)
        self._database.use.measure(Remembered.CHOICE, [question])
        if choice.certain:
            self._put(question, choice)
        else:
            self._database.use.doubtful = True

    def is_noted(self, what: str) -> bool:
        """True if a thing was noted before, under the same conditions."""
        return self._found(what) is not None

    def note(self, what: str) -> None:
        """Note a thing without a measurement, in the form of a choice."""
        self._put(what, BuildChoice(kept=what, notes=(), certain=True))

    def _found(self, question: str) -> tuple[BuildChoice, str] | None:
        """Choice stored for a question, and its day."""
        if self._database is None:
            return None
        try:
            text = self._database.get_facts(self._subject, [question]).get(question)
            return None if text is None else _read(text)
        except (DatabaseError, UnreadableValueError):
            return None

    def _put(self, question: str, choice: BuildChoice) -> None:
        if self._database is None:
            return
        text = json.dumps(asdict(choice) | {"raced": time.strftime("%Y-%m-%d")}, sort_keys=True)
        with suppress(DatabaseError):
            # Only what cannot be read is ever replaced: nothing is chosen where a choice is known.
            self._database.put_facts(self._subject, {question: text}, replace=True)


def _read(text: str) -> tuple[BuildChoice, str]:
    """Stored choice, and its day."""
    data = parse_json(text, "the choice")
    day = data.field("raced").text()
    choice = noun_from(BuildChoice, data.without("raced"))
    return replace(choice, notes=tuple(f"{each} (raced on {day})" for each in choice.notes)), day
