"""Top-level names under TVM 0.27: they work, or say in one line that they need Relay."""

from __future__ import annotations

import pytest

import tvm_ios
from tvm_ios.errors import HostError

NEEDS_RELAY = {"SimpleTVM"}
"""Names that need Relay; the others may."""


@pytest.mark.parametrize("name", tvm_ios.__all__)
def test_a_name_works_or_says_what_it_needs(name):
    try:
        assert getattr(tvm_ios, name) is not None
    except HostError as error:
        message = str(error)
        assert "\n" not in message
        assert message.startswith(f"tvm_ios.{name} needs a TVM with Relay: TVM 0.27")
        assert "tvm-ios install-tvm" in message
    else:
        assert name not in NEEDS_RELAY
