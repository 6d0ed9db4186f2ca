"""Text from files and users is printed without control characters."""

from __future__ import annotations

import io
import sys

import pytest

from tvm_ios.support.printable import PrintableStream, printable, printable_output


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("conv1 → relu, µs", "conv1 → relu, µs"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x00\x7f\x85\x9b", r"\x00\x7f\x85\x9b"),
        ("\u202ecod\u2066", r"\u202ecod\u2066"),
        ("line\rover", r"line\rover"),
        ("\udcff", r"\udcff"),
    ],
)
def test_what_does_not_print_is_escaped(text, shown):
    assert printable(text) == shown


def test_lines_of_a_name_are_escaped_where_it_has_one():
    assert printable("a\n\tb", keep="") == r"a\n\tb"


def test_streams_are_escaped_inside(capsys):
    with printable_output():
        print("\x1b[2J", end="")
        print("\x07", end="", file=sys.stderr)
    print("\x1b", end="")
    assert capsys.readouterr() == ("\\x1b[2J\x1b", "\\x07")


def test_a_stream_is_like_the_one_behind_it():
    raw = io.StringIO()
    stream = PrintableStream(raw)
    assert (stream.isatty(), stream.raw) == (False, raw)
    assert stream.write("\x1b") == 4
