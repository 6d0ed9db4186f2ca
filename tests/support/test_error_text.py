"""Lines of errors: blank ones are none, and there is always one."""

from __future__ import annotations

from tvm_ios.support.error_text import lines_that_tell


def test_blank_lines_do_not_tell() -> None:
    error = ValueError("\n  first\n\n\tlast \n \n")
    assert lines_that_tell(error, "no reason") == ["first", "last"]


def test_there_is_always_a_line() -> None:
    assert lines_that_tell(ValueError(" \n"), "no reason") == ["no reason"]
