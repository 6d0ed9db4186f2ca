"""Races that were run before, stored like prices: all rounds, under everything that decides them.

A race is a fact of the profile database, under the same context as prices and an identity given by
the racers. One that a quiet machine would hardly end otherwise is known, and not run again. Of any
other the undisturbed rounds are stored, and a later call goes on from them.
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

        None where nobody ran it to its end, or the stored race is damaged.
        """
        try:
            found = self._found(identity, names)
            if found is None or not found[0].comparison.is_settled:
                return None
            found[0].comparison.as_text()  # refuses too few rounds
        # A comparison of too few rounds, or with a time of 0, has no speedups.
        except (OptionError, ZeroDivisionError):
            return None
        race, when = found
        _LOG.info("last race of %s: that of %s in %s", ", ".join(names), when, self._database.path)
        self._database.use.take(Remembered.RACE, identity, when)
        told = (
            f"the last race is that of an earlier call ({when}), of the same kernels, schedules "
            "and options; reuse = false in [compare] races again"
        )
        comparison = replace(race.comparison, notes=(*race.comparison.notes, told))
        return replace(race, comparison=comparison)

    def begun(self, identity: str, plans: Mapping[str, str]) -> Comparison | None:
        """Undisturbed rounds of a race between contestants of these plans, with a note on the day.

        None where nobody began it.
        """
        found = self._found(identity, tuple(plans))
        if found is None or found[0].plans != plans:
            return None
        race, when = found
        rounds = race.comparison.undisturbed_rounds
        if not rounds:
            return None
        _LOG.info("last race: goes on after %d rounds of %s", len(rounds), when)
        told = f"{len(rounds)} rounds of the last race are those of an earlier call ({when})"
        return replace(race.comparison, rounds=rounds, notes=(told,))

    def keep(self, identity: str, race: KnownRace) -> None:
        """Store a race in place of an earlier one; if unsettled, without its disturbed rounds.

        A database that cannot be written is no error.
        """
        comparison = race.comparison
        if not comparison.is_settled:
            rounds = comparison.undisturbed_rounds
            _LOG.info("the last race is not settled: %d rounds of it are kept", len(rounds))
            comparison = replace(comparison, rounds=rounds, notes=())
        if not comparison.rounds:
            return
        record = {
            "raced": time.strftime("%Y-%m-%d"),
            "race": comparison.as_record(),
            "plans": dict(race.plans),
        }
        with suppress(DatabaseError):
            self._database.put_facts(
                self._subject(identity), {ROUNDS: json.dumps(record)}, replace=True
            )

    def _found(self, identity: str, names: tuple[str, ...]) -> tuple[KnownRace, str] | None:
        """Stored race with its day; None where there is none, or it is damaged."""
        try:
            text = self._database.get_facts(self._subject(identity), [ROUNDS]).get(ROUNDS)
            return None if text is None else _read(text, names)
        except (DatabaseError, UnreadableValueError):
            return None

    def _subject(self, identity: str) -> str:
        return f"race {identity} in {self._context}"


def _read(text: str, names: tuple[str, ...]) -> tuple[KnownRace, str] | None:
    data = parse_json(text, "the race")
    plans = {name: data.field("plans").field(name).text() for name in names}
    race = Comparison.from_record(data.field("race"))
    when = data.field("raced").text()
    if race.names != names:
        return None
    if any(ns is not None and ns <= 0 for round_ in race.rounds for ns in round_.run_ns):
        return None
    return KnownRace(comparison=race, plans=plans), when
