"""Calls of oneDNN made by hand, and the tensors they are made of."""

from __future__ import annotations

from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive
from tvm_ios.runtime.libraries.onednn.tensors import OnednnTensor, in_order

__all__ = ["SOFTMAX", "tensor"]


def tensor(
    *extents: int, position: int | None = None, layout: str = "", constant: bool = False
) -> OnednnTensor:
    """A tensor that lies in order, where no other layout is given."""
    return OnednnTensor(
        position=position,
        shape=extents,
        extents=extents,
        format=layout or in_order(len(extents)),
        constant=constant,
    )


SOFTMAX = OnednnCall(
    primitive=Primitive.SOFTMAX,
    data=tensor(8, 16, 16, position=0),
    weight=None,
    bias=None,
    result=tensor(8, 16, 16),
)
