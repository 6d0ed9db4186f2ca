"""The line that says what was taken from a profile database."""

from __future__ import annotations

from pathlib import Path

from tvm_ios.cost.database_use import DatabaseUse, Remembered, day_of

FILE = Path("p.sqlite")


def test_everything_that_was_known_is_counted_with_its_days():
    use = DatabaseUse()
    use.take(Remembered.PRICE, "a", "2026-01-03")
    use.take(Remembered.PRICE, "b", "2026-01-02")
    use.take(Remembered.PRICE, "b", "2026-01-02")  # asked for again
    use.take(Remembered.CHOICE, "which", "2026-01-04")
    use.take(Remembered.RACE, "id", "2026-01-04")
    assert use.as_text(FILE) == (
        "taken from p.sqlite, measured from 2026-01-02 to 2026-01-04: 2 prices, 1 choice, "
        "the last race; nothing had to be measured (--fresh measures all anew)"
    )


def test_what_was_measured_is_not_taken():
    use = DatabaseUse()
    use.measure(Remembered.PRICE, ["a", "b"])
    use.take(Remembered.PRICE, "a", "2026-01-03")  # lies there since it was measured
    assert use.as_text(FILE) == "measured now: 2 prices; p.sqlite had none of it"
    use.take(Remembered.PRICE, "c", "2026-01-03")
    use.take(Remembered.RACE, "id", "2026-01-03")
    use.measure(Remembered.RACE, ["id"])  # did not fit
    assert use.as_text(FILE) == (
        "taken from p.sqlite, measured on 2026-01-03: 1 price; measured now: 2 prices, "
        "the last race (--fresh measures all anew)"
    )


def test_a_time_is_a_day():
    assert day_of(0.0) in ("1970-01-01", "1969-12-31")
