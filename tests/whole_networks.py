"""Networks of the zoo as parameters of a test: two run always, the others are marked ``full``."""

from __future__ import annotations

import pytest

from tvm_ios.models import MODEL_NAMES

ALWAYS = ("randwire_small", "squeezenet")
WHOLE_NETWORKS = [
    *ALWAYS,
    *(pytest.param(name, marks=pytest.mark.full) for name in MODEL_NAMES if name not in ALWAYS),
]
