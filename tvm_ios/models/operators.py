"""Operators that networks are built of, in the dialect of this process's TVM.

``op`` is ``tvm.relay``, or :mod:`tvm_ios.models.relax_operators`, which has the same names.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import tvm

from tvm_ios.host.relax_tvm import is_relax_tvm

__all__ = ["IS_RELAX", "op"]

IS_RELAX = is_relax_tvm(tvm)
op: Any = import_module("tvm_ios.models.relax_operators" if IS_RELAX else "tvm.relay")
