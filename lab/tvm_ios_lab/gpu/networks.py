"""The networks that are evaluated, and their smallest versions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tvm_ios.models import (
    by_name,
    inception_v3,
    nasnet_large,
    nasnet_small,
    randwire,
    randwire_small,
    squeezenet,
)
from tvm_ios_lab.gpu.agenda import Case

__all__ = ["network"]

_QUICK: Mapping[str, Any] = {
    "inception_v3": partial(inception_v3, image_size=75),
    "randwire": partial(randwire, image_size=64, channels=16),
    "nasnet_large": partial(
        nasnet_large, image_size=64, stem_channels=8, filters=16, normal_cells=1
    ),
    "squeezenet": partial(squeezenet, image_size=64),
    "nasnet_small": partial(nasnet_small, size=8, num_cells=1),
    "randwire_small": partial(randwire_small, size=8, channels=16, num_nodes=8),
}


def network(case: Case, *, quick: bool) -> tuple[Any, Any]:
    """The module and parameters of a case.

    Parameters
    ----------
    case
        Which network, at which batch size.
    quick
        True takes the smallest version of the network.
    """
    factory = _QUICK.get(case.network) if quick else None
    return (factory or by_name(case.network))(batch_size=case.batch_size)
