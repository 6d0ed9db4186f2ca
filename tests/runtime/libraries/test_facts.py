"""Facts are found out once, and kept if they were measured."""

from __future__ import annotations

import pytest

from tvm_ios.errors import DatabaseError
from tvm_ios.runtime.libraries.facts import find_facts


class Store:
    def __init__(self, broken: bool = False):
        self.broken = broken
        self.facts: dict[str, str] = {}

    def get_facts(self, subject, names):
        self._use()
        return {name: self.facts[name] for name in names if name in self.facts}

    def put_facts(self, subject, facts):
        self._use()
        self.facts |= facts

    def _use(self):
        if self.broken:
            raise DatabaseError("no database")


def find(number):
    return f"found {number}", number > 1


def test_what_the_store_has_is_not_found_out_and_only_what_was_measured_is_kept():
    store = Store()
    store.facts["a"] = "known"
    found = find_facts(store, "numbers", {"a": 9, "b": 1, "c": 2}, find)
    assert found == {"a": "known", "b": "found 1", "c": "found 2"}
    assert store.facts == {"a": "known", "c": "found 2"}


@pytest.mark.parametrize("store", [None, Store(broken=True)])
def test_facts_are_found_without_a_store_that_works(store):
    assert find_facts(store, "numbers", {"c": 2}, find) == {"c": "found 2"}
