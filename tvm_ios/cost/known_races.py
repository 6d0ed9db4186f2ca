"""Races that were run before, stored like prices: all rounds, under everything that decides them.

A race is a fact of the profile database, under the same context as prices and an identity given by
the racers. Rounds of the machine's slow mode are not stored, so known races were fair.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.database_use import Remembered
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.errors import DatabaseError, OptionError
from tvm_ios.measure.comparison import Comparison
from tvm_ios.support.stored_value import UnreadableValueError, parse_json

__all__ = ["KnownRace", "KnownRaces"]

_LOG = logging.getLogger(__name__)

ROUNDS = "rounds"
"""Name of the only fact of a race."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRace:
    """A stored race with the plans that raced."""

    comparison: Comparison
    """Rounds of the race, with those that do not count."""
    plans: Mapping[str, str]
    """Digest of the plan of each contestant, by its name."""


class KnownRaces:
    """Earlier races in a profile database, and a place for new ones.

    Races depend on the context, besides their identity.
    """

    def __init__(self, database: ProfileDatabase, context: ProfileContext) -> None:
        self._database = database
        self._context = context.digest()

    def known(self, identity: str, names: tuple[str, ...]) -> KnownRace | None:
        """Race of an identity between contestants, with a note that says when it was run.

        None where nobody ran it, or the stored race is damaged.
        """
        try:
            text = self._database.get_facts(self._subject(identity), [ROUNDS]).get(ROUNDS)
            found = None if text is None else _read(text, names)
        # A comparison of too few rounds, or with a time of 0, has no speedups.
        except (DatabaseError, OptionError, UnreadableValueError, ZeroDivisionError):
            return None
        if found is None:
            return None
        race, when = found
        _LOG.info("last race of %s: that of %s in %s", ", ".join(names), when, self._database.path)
        self._database.use.take(Remembered.RACE, identity, when)
        return race

    def keep(self, identity: str, race: KnownRace) -> None:
        """Store a fair race in place of an earlier one.

        A database that cannot be written is no error.
        """
        if not race.comparison.is_quiet:
            _LOG.info("the last race is not kept: it was run in the machine's slow mode")
            return
        record = {
            "raced": time.strftime("%Y-%m-%d"),
            "race": race.comparison.as_record(),
            "plans": dict(race.plans),
        }
        with suppress(DatabaseError):
            self._database.put_facts(
                self._subject(identity), {ROUNDS: json.dumps(record)}, replace=True
            )

    def _subject(self, identity: str) -> str:
        return f"race {identity} in {self._context}"


def _read(text: str, names: tuple[str, ...]) -> tuple[KnownRace, str] | None:
    data = parse_json(text, "the race")
    plans = {name: data.field("plans").field(name).text() for name in names}
    race = Comparison.from_record(data.field("race"))
    when = data.field("raced").text()
    if race.names != names or not race.is_quiet:
        return None
    if any(ns is not None and ns <= 0 for round_ in race.rounds for ns in round_.run_ns):
        return None
    race.as_text()  # refuses too few rounds
    told = (
        f"the last race is that of an earlier call ({when}), of the same kernels, schedules and "
        "options; reuse = false in [compare] races again"
    )
    return KnownRace(comparison=replace(race, notes=(*race.notes, told)), plans=plans), when
