"""TOML of users is read within bounds: beyond them there is one error, never a raw one."""

from __future__ import annotations

import pytest

from tvm_ios.support.stored_value import UnreadableValueError
from tvm_ios.support.toml_tables import LARGEST_TOML, parse_toml, read_toml


def test_tables_are_read(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("[a]\nb = [1, 'x', 2.5]\n")
    assert read_toml(path) == {"a": {"b": [1, "x", 2.5]}}
    assert parse_toml(f"a = {2**63 - 1}", "it") == {"a": 2**63 - 1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a\n", "^it is no TOML: .*line 1"),
        (f"a = {'9' * 4301}", "^it is no TOML: .*4300 digits"),
        (f"a = {2**63}", "^it has an integer of more than 64 bits"),
        (f"a = 0x{'f' * 4301}", "^it has an integer of more than 64 bits"),
        ("a" + ".a" * 101 + " = 1", "^it has a key of more than 100 dots"),
        ("#" + "." * 101, "^it has a key of more than 100 dots, or such a text or comment"),
        (r'a = ["b\u0000"]', "^it has a text with the character NUL"),
        ("a" + ".a" * 33 + " = 1", "^it is nested more than 32 deep"),
        ("a = " + "{a = " * 200 + "1" + "}" * 200, "^it is nested more than 32 deep"),
        ("a = " + "[" * 100_000, "^it is no TOML: maximum recursion"),
        ("#" * (LARGEST_TOML + 1), f"^it has more than {LARGEST_TOML} characters"),
    ],
)
def test_what_is_beyond_the_bounds_is_refused_in_a_line(text, told):
    with pytest.raises(UnreadableValueError, match=told) as refused:
        parse_toml(text, "it")
    assert "\n" not in str(refused.value)


def test_of_a_long_file_no_more_is_read_than_is_allowed(tmp_path):
    path = tmp_path / "a.toml"
    path.symlink_to("/dev/zero")
    with pytest.raises(UnreadableValueError, match="this has more than"):
        read_toml(path)
