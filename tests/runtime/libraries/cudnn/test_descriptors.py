"""What is described to cuDNN is what Relay says of the operator."""

from __future__ import annotations

import pytest

FMA, DEFAULT = 3, 0


@pytest.mark.slow
@pytest.mark.parametrize("tf32", [False, True])
def test_the_numbers_are_those_of_the_operators(cuda_stand_in, tf32):
    seen = cuda_stand_in.run("cudnn_numbers", "convolutions", cudnn=True, tf32=tf32)
    assert len(seen["rows"]) == 5
    assert (seen["left"], seen["live"]) == (0, {})
    for given, relay in seen["rows"]:
        assert [given["x"], given["w"]] == relay["shapes"][:2]
        assert given["padding"] * (len(relay["padding"]) // 2) == relay["padding"]
        for name in ("strides", "dilation"):
            assert given[name] == relay[name]
        assert given["groups"] == [relay["groups"]]
        assert given["dtype"] == [0]
        # TF32 is off unless asked for.
        assert given["math"] == [DEFAULT if tf32 else FMA]
