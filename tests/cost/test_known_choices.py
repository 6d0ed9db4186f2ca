"""Choices between builds that are kept like prices."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.known_choices import BuildChoice, KnownChoices
from tvm_ios.cost.profile_key import ProfileContext

CONTEXT = ProfileContext(device="here", lanes=2, tvm_version="0", kernels="llvm")
CHOICE = BuildChoice(kept="b", notes=("b: 2.0",), certain=True, left_out=("w",), operators=(2, 3))


@pytest.fixture
def database(tmp_path):
    return ProfileDatabase(tmp_path / "prices.sqlite")


def test_a_certain_choice_is_known_under_its_question_and_context(database):
    choices = KnownChoices(database, CONTEXT)
    assert choices.known("which") is None
    choices.keep("which", CHOICE)
    found = KnownChoices(database, CONTEXT).known("which")
    assert found is not None
    assert (found.kept, found.left_out, found.operators, found.certain) == (
        "b",
        ("w",),
        (2, 3),
        True,
    )
    assert found.notes[0].startswith("b: 2.0 (raced on 2")
    assert choices.known("another") is None
    assert KnownChoices(database, replace(CONTEXT, lanes=1)).known("which") is None


def test_who_computes_what_is_kept_and_older_choices_say_nothing_of_it(database):
    choices = KnownChoices(database, CONTEXT)
    rows = (LibraryOperators("one", (1, 4)), LibraryOperators("two", ()))
    choices.keep("which", replace(CHOICE, libraries=rows))
    found = choices.known("which")
    assert found is not None
    assert found.libraries == rows
    subject = f"build choices {CONTEXT.digest()}"
    kept = json.loads(database.get_facts(subject, ["which"])["which"])
    del kept["libraries"]
    database.put_facts(subject, {"older": json.dumps(kept)})
    older = choices.known("older")
    assert older is not None
    assert older.libraries == ()
    damaged = kept | {"libraries": [{"library": "one"}]}
    database.put_facts(subject, {"damaged": json.dumps(damaged)})
    assert choices.known("damaged") is None


def test_what_was_chosen_and_whether_it_was_known_is_in_the_log(database, caplog):
    choices = KnownChoices(database, CONTEXT)
    with caplog.at_level(logging.INFO, "tvm_ios"):
        choices.keep("which", CHOICE)
        choices.keep("other", replace(CHOICE, certain=False))
        choices.known("which")
    found, uncertain, known = caplog.messages
    assert found == "which: found now, 'b'"
    assert uncertain == "other: found now, 'b'; not kept, for the machine was not quiet"
    assert known.startswith("which: 'b', as was found on 2")


def test_an_uncertain_choice_is_made_again(database):
    choices = KnownChoices(database, CONTEXT)
    choices.keep("which", replace(CHOICE, certain=False))
    assert choices.known("which") is None


@pytest.mark.parametrize("text", ["", "[]", "1", '{"kept": "b"}', '{"kept": 3, "notes": 4}', "{"])
def test_a_damaged_answer_is_no_answer(database, text):
    choices = KnownChoices(database, CONTEXT)
    database.put_facts(f"build choices {CONTEXT.digest()}", {"which": text})
    assert choices.known("which") is None
    choices.keep("which", CHOICE)
    assert choices.known("which") is not None


def test_without_a_database_nothing_is_remembered(tmp_path):
    choices = KnownChoices(None, CONTEXT)
    choices.keep("which", CHOICE)
    assert choices.known("which") is None
    path = tmp_path / "prices.sqlite"
    broken = KnownChoices(ProfileDatabase(path), CONTEXT)
    path.write_bytes(b"no database" * 1000)
    broken.keep("which", CHOICE)
    assert broken.known("which") is None
