import numpy as np

from tests.onnx.cases import cases
from tests.onnx.rules.images.test_resizes import MODES
from tvm_ios.onnx.rules.images.resampling import Coordinates, nearest, samples


def of(extent, resized, mode="half_pixel"):
    scale = np.float32(resized) / np.float32(extent)
    return Coordinates(extent=extent, resized=resized, scale=scale, mode=mode)


@cases(mode=MODES, cubic=[None, -0.75], antialias=[False, True])
def test_weights_add_up_to_one(mode, cubic, antialias):
    for resized in (1, 3, 7, 20):
        told = {"cubic": cubic, "antialias": antialias, "exclude_outside": False}
        matrix = samples(of(7, resized, mode), **told).matrix(7)
        np.testing.assert_allclose(matrix.sum(1), 1)
        if resized == 7:
            np.testing.assert_allclose(matrix, np.eye(7), atol=1e-7)


def test_twice_as_many_places_are_each_taken_twice():
    assert nearest(of(3, 6), "round_prefer_floor").tolist() == [0, 0, 1, 1, 2, 2]
