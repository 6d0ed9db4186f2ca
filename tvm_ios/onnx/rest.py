"""The rest of a model: nodes that compiled code lacks, and all behind them, for onnxruntime.

Free of the package onnx and of onnxruntime, so that compiled files can be read without them.
"""

from __future__ import annotations

import importlib.util
import json
import struct
from dataclasses import dataclass
from typing import Self

__all__ = ["INSTALL_RUNTIME", "REFUSE", "RESTS", "Rest", "runtime_is_here"]

REFUSE = "refuse"
RESTS = ("onnxruntime", REFUSE)
"""Ways to treat nodes that compiled code lacks: run by onnxruntime, or refused with the model."""
INSTALL_RUNTIME = "pip install onnxruntime"
"""Command that installs what runs the rest of a model."""
_LENGTH = struct.Struct("<I")
"""Layout of the length in bytes of the facts, which lie between this length and the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The end of a model, which onnxruntime runs after the compiled front."""

    name: str
    """Path of the whole model, or ``the model``."""
    text: str
    """Line for people: how many nodes it has, from which one on, and why they are not compiled."""
    fronts: tuple[str, ...]
    """Names of the outputs of the front, in order."""
    outputs: tuple[str, ...]
    """Names of the outputs of the whole model, in order; those in ``fronts`` are the front's."""
    model: bytes
    """A model in ONNX. Its inputs are outputs of the front, or inputs of the whole model."""

    def to_bytes(self) -> bytes:
        """Bytes of all this; :meth:`from_bytes` reads them back."""
        facts = json.dumps([self.name, self.text, self.fronts, self.outputs]).encode()
        return _LENGTH.pack(len(facts)) + facts + self.model

    @classmethod
    def from_bytes(cls, packed: bytes) -> Self:
        """Rest in the bytes of :meth:`to_bytes`."""
        end = _LENGTH.size + _LENGTH.unpack_from(packed)[0]
        name, text, fronts, outputs = json.loads(packed[_LENGTH.size : end])
        return cls(
            name=name,
            text=text,
            fronts=tuple(fronts),
            outputs=tuple(outputs),
            model=packed[end:],
        )


def runtime_is_here() -> bool:
    """True if onnxruntime is installed; it is not loaded to see that."""
    return importlib.util.find_spec("onnxruntime") is not None
