"""Options that exclude bfloat16, and keywords that go over options."""

from __future__ import annotations

import pytest

from tvm_ios import BuildOptions, Precision, TuneOptions
from tvm_ios.driver.options import DEFAULTS, options_of_call
from tvm_ios.errors import OptionError

LOW = TuneOptions(precision=Precision(dtype="bfloat16", max_relative_error=0.01))


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"build": {"exact": True}}, "exact=True keeps the bits of float32"),
        ({"build": {"libraries": ()}}, r"libraries=\(\) leaves out oneDNN"),
        ({"conversion": {"mixed_precision": True}}, "mixed_precision=True computes in float16"),
        (
            {"device": {"rpc_tracker": "h:1", "rpc_key": "k"}},
            "errors are checked on this machine alone",
        ),
    ],
)
def test_what_excludes_bfloat16_is_refused_at_once(others, message):
    with pytest.raises(OptionError, match=f"precision is 'bfloat16', but {message}.*; leave out"):
        LOW.changed(**others)
    assert TuneOptions.of(**others).why_not_bfloat16()


def test_keywords_go_over_options_and_efforts():
    exact = TuneOptions(build=BuildOptions(pad_channels=False))
    asked = options_of_call(None, exact, precision="bfloat16")
    assert asked.precision == Precision(dtype="bfloat16")
    assert asked.build == exact.build
    assert options_of_call("quick", DEFAULTS, precision="bfloat16").search.list_only
    assert options_of_call(None, LOW, max_relative_error=0.2).precision.max_relative_error == 0.2
    assert not options_of_call(None, LOW, precision="float32").precision.is_low
    with pytest.raises(OptionError, match="everything is computed in float32"):
        options_of_call(None, DEFAULTS, max_relative_error=0.2)
    with pytest.raises(OptionError, match="exact=True"):
        options_of_call(None, TuneOptions(build=BuildOptions(exact=True)), precision="bfloat16")
