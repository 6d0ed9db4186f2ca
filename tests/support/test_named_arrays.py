from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from tvm_ios.support.named_arrays import named_arrays


def written(save, *arrays, **named):
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


def one_array(shape):
    """A file whose only array says that it has this shape."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n"
        size = len(header).to_bytes(2, "little")
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + size + header.encode())
    return file.getvalue()


def test_arrays_come_back_by_name():
    found = named_arrays(written(np.savez, weight=np.arange(3), bias=np.zeros((2, 0))))
    assert sorted(found) == ["bias", "weight"]
    np.testing.assert_array_equal(found["weight"], [0, 1, 2])


WHOLE = written(np.savez_compressed, weight=np.random.default_rng(0).random(1000))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "No data left in file"),
        (b"hello", "pickled"),
        *((one_array((extent,)), "\\w") for extent in (10**11, 10**22)),  # no memory has that
        (WHOLE[:2000], "not a zip file"),
        (WHOLE[:3000] + bytes(60) + WHOLE[3060:], "decompressing|CRC"),
        (written(np.save, np.zeros(3)), "one array, without a name"),
        (written(np.savez, weight=np.array([{}])), "Object arrays"),
    ],
)
def test_what_numpy_cannot_read_is_one_kind_of_error(content, message):
    with pytest.raises(ValueError, match=message):
        named_arrays(content)
