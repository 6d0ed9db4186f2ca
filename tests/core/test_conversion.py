"""What a model is converted to: values nobody knows are refused, and what is asked for is told."""

from __future__ import annotations

import pytest

from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.errors import OptionError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"desired_layout": "NHCW"}, "desired_layout is 'NHCW'; give 'NCHW', 'NHWC' or None"),
        ({"desired_layout": "nhwc"}, "desired_layout is 'nhwc'"),
        ({"desired_layout": "WHCN"}, "desired_layout is 'WHCN'"),
        ({"mixed_precision": "float16"}, "mixed_precision is 'float16'; give True"),
        ({"mixed_precision_acc_type": "bfloat16"}, "mixed_precision_acc_type is 'bfloat16'"),
        ({"mixed_precision_acc_type": "float16"}, "'float16', but nothing is in mixed precision"),
    ],
)
def test_unknown_values_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        Conversion(**options)


def test_a_conversion_is_told_as_it_is_written():
    half = Conversion(desired_layout="NHWC", mixed_precision=True)
    assert half.changes
    assert half.as_text() == (
        "desired_layout='NHWC', mixed_precision=True, mixed_precision_acc_type='float32'"
    )
    assert not AS_IT_IS.changes
    assert AS_IT_IS.as_text() == "layouts and types as they are"
