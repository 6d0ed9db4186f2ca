"""Windows of convolutions and poolings: how far they reach, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.values import extents, required

__all__ = ["Window", "window_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window that moves over the axes of images, from the first one on."""

    image: np.ndarray
    """Extents of the image."""
    kernel: np.ndarray
    strides: np.ndarray
    dilations: np.ndarray
    begins: np.ndarray
    """Elements that are made up before the image, by axis."""
    ends: np.ndarray
    """Elements that are made up behind the image, by axis."""

    @property
    def reach(self) -> np.ndarray:
        """Extents of the window from its first element to its last."""
        return np.asarray((self.kernel - 1) * self.dilations + 1)

    @property
    def counts(self) -> np.ndarray:
        """Number of windows along each axis, all of which lie within image and pads."""
        free = self.image + self.begins + self.ends - self.reach
        return np.asarray(free // self.strides + 1)

    @property
    def attributes(self) -> dict[str, list[int]]:
        """Attributes of a node in the normal form."""
        pads = np.concatenate([self.begins, self.ends])
        rows = {
            "kernel_shape": self.kernel,
            "strides": self.strides,
            "dilations": self.dilations,
            "pads": pads,
        }
        return {name: [int(each) for each in row] for name, row in rows.items()}

    def same(self, *, upper: bool) -> Window:
        """Pads with which there are as many windows as steps fit into the image."""
        total = np.maximum(self.overlap, 0)
        less, more = total // 2, total - total // 2
        begins, ends = (less, more) if upper else (more, less)
        return replace(self, begins=begins, ends=ends)

    @property
    def overlap(self) -> np.ndarray:
        """Elements that windows of :meth:`same` need beyond the image; below zero: leave over."""
        counts = -(-self.image // self.strides)
        return np.asarray((counts - 1) * self.strides + self.reach - self.image)

    def require_within(self) -> None:
        """Raise ModelError for a window that is larger than the image and its pads."""
        if (self.image + self.begins + self.ends < self.reach).any():
            raise ModelError(
                f"has windows of {self.reach.tolist()}, larger than the image of "
                f"{self.image.tolist()} and its pads; give more pads or a smaller kernel"
            )

    def rounded_up(self) -> Window:
        """Pads with which the last window may end beyond, but not begin behind the image."""
        free = self.image + self.begins + self.ends - self.reach
        counts = -(-free // self.strides) + 1
        counts -= (counts - 1) * self.strides >= self.image + self.begins
        ends = (counts - 1) * self.strides + self.reach - self.image - self.begins
        return replace(self, ends=np.maximum(ends, 0))


def window_of(node: ir.Node, kernel: Any = None) -> Window:
    """The window of a node, whose ``auto_pad`` is not yet pads; ``kernel`` where a weight tells."""
    image = np.array(extents(required(node))[2:])
    said = node.attributes.get_ints("kernel_shape", tuple(kernel) if kernel is not None else ())
    if kernel is not None and tuple(said) != tuple(kernel):
        raise ModelError(f"has kernel_shape={list(said)}, and weights of {list(kernel)}")
    ones = [1] * len(image)
    pads = node.attributes.get_ints("pads", [0] * 2 * len(image))
    if node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        pads = [0] * 2 * len(image)
    if not len(said) == len(image) == len(pads) / 2:
        raise ModelError(f"has a kernel of {list(said)} and pads of {list(pads)} on {list(image)}")
    return Window(
        image=image,
        kernel=np.array(said),
        strides=np.array(node.attributes.get_ints("strides", ones)),
        dilations=np.array(node.attributes.get_ints("dilations", ones)),
        begins=np.array(pads[: len(image)]),
        ends=np.array(pads[len(image) :]),
    )
