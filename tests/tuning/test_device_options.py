"""A device of a tracker is named by both, or not at all."""

from __future__ import annotations

import pytest

from tvm_ios.errors import OptionError
from tvm_ios.tuning.device_options import DeviceOptions


@pytest.mark.parametrize(
    ("tracker", "key"), [("h:1", None), (None, "xavier"), ("h:1", ""), ("", "xavier"), ("", "")]
)
def test_a_tracker_and_a_key_belong_together(tracker, key):
    with pytest.raises(OptionError, match="rpc_tracker is .* and rpc_key .*; give both") as caught:
        DeviceOptions(rpc_tracker=tracker, rpc_key=key)
    assert repr(tracker) in str(caught.value)
    assert repr(key) in str(caught.value)


def test_what_is_no_text_is_refused():
    with pytest.raises(OptionError, match="rpc_tracker is 9190; give a string"):
        DeviceOptions(rpc_tracker=9190, rpc_key="xavier")


def test_this_machine_is_the_default():
    assert not DeviceOptions().is_remote
    assert DeviceOptions(rpc_tracker="h:1", rpc_key="xavier").is_remote
