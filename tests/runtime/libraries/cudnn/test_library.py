"""cuDNN is found in a wheel, and one that is missing or too old is one clear error."""

from __future__ import annotations


def test_a_missing_library_says_what_to_install(cuda_stand_in):
    seen = cuda_stand_in.run("cudnn_missing", "convolutions", cudnn=True)
    assert seen["none"].startswith("HostError: no cuDNN: libcudnn_of_nobody.so.9")
    assert "nvidia-cudnn-cu12" in seen["none"]
    assert "pip install 'nvidia-cudnn-cu12" in seen["none"]
    assert "--libraries none" in seen["none"]
    assert seen["tune"] == seen["none"]
    assert "is cuDNN 8.9.7, but cuDNN 9 is needed" in seen["old"]
    # A plan without such calls needs no cuDNN.
    assert (seen["plain"], seen["found"]) == (None, None)
    assert seen["live"] == {}
