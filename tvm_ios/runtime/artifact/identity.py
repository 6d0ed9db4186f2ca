"""The identity of an exported file: what it was made for, and who can run it. No TVM here."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tvm_ios.errors import ArtifactError
from tvm_ios.plan.image import PLAN_VERSION
from tvm_ios.support.json_nouns import noun_from
from tvm_ios.support.stored_value import UnreadableValueError, parse_json

__all__ = ["ArtifactIdentity", "Processor", "needed_features", "read_processor"]

_LLVM_TO_KERNEL = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "popcnt": "popcnt",
    "avx": "avx",
    "avx2": "avx2",
    "f16c": "f16c",
    "fma": "fma",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "lzcnt": "abm",
    "movbe": "movbe",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512ifma": "avx512ifma",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avxvnni": "avx_vnni",
    "gfni": "gfni",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
    "neon": "asimd",
    "dotprod": "asimddp",
    "fullfp16": "asimdhp",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
}
"""Names in ``/proc/cpuinfo`` of instruction sets that a compiler may emit, by LLVM's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """Architecture, model and instruction sets of a processor."""

    architecture: str
    """``x86_64``, ``aarch64`` …"""
    model: str
    """Vendor, family and model, as numbers where the vendor numbers them."""
    features: frozenset[str]
    """Instruction sets, in the words of ``/proc/cpuinfo``."""


def read_processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> Processor:
    """The processor of this machine."""
    fields: dict[str, str] = {}
    try:
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    except OSError:
        fields = {}
    words = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU variant", "CPU part")
    model = " ".join(f"{word} {fields[word]}" for word in words if word in fields)
    flags = fields.get("flags", fields.get("Features", ""))
    return Processor(
        architecture=platform.machine(),
        model=model or platform.processor() or "unknown",
        features=frozenset(flags.split()),
    )


def needed_features(llvm_features: Iterable[str]) -> tuple[str, ...]:
    """Instruction sets that LLVM may emit for a target and a processor can lack; sorted."""
    return tuple(sorted(_LLVM_TO_KERNEL[name] for name in llvm_features if name in _LLVM_TO_KERNEL))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactIdentity:
    """Facts in every exported file; a machine that they do not fit refuses the file."""

    plan_version: int
    tvm_version: str
    target: str
    architecture: str
    processor_model: str
    features: tuple[str, ...]
    """Names in ``/proc/cpuinfo`` of the instruction sets that the kernels use."""
    lanes: int

    def to_json(self) -> str:
        """The fields as JSON; :meth:`from_json` reads them back."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> ArtifactIdentity:
        """Identity in the JSON of :meth:`to_json`."""
        try:
            data = parse_json(text, "the identity")
            _require_version(data.field("plan_version").whole())
            return noun_from(cls, data)
        except UnreadableValueError as error:
            raise ArtifactError(
                f"the identity of the file cannot be read: {error}; export the model again"
            ) from error

    def require_tvm(self, tvm_version: str) -> None:
        """Refuse a file made with another TVM, which may not even know its target's form."""
        _require_version(self.plan_version)
        if self.tvm_version != tvm_version:
            raise ArtifactError(
                f"made with TVM {self.tvm_version}, but TVM {tvm_version} is installed; export the "
                "model again, install that TVM, or, with both here, set TVM_IOS_TVM to the other"
            )

    def require_fit(self, here: Processor, *, any_model: bool = False) -> None:
        """Refuse a file made for another processor than this one.

        With ``any_model`` another processor model is fine if it has all instruction sets needed.
        """
        if self.architecture != here.architecture:
            raise ArtifactError(
                f"made for {self.architecture} processors, but this one is {here.architecture}; "
                "export the model for a target of this machine"
            )
        missing = [feature for feature in self.features if feature not in here.features]
        if missing:
            raise ArtifactError(
                f"its kernels (target {self.target!r}) use {', '.join(missing)}, which this "
                f"processor ({here.model}) lacks; export the model for a target of this machine"
            )
        if self.processor_model != here.model and not any_model:
            raise ArtifactError(
                f"tuned on processor {self.processor_model}, but this one is {here.model}; it "
                "would run, though its schedule was not measured here: tune again, or load it "
                "with any_processor_model=True (--any-processor-model)"
            )


def _require_version(version: object) -> None:
    if version != PLAN_VERSION:
        raise ArtifactError(
            f"made with plan version {version!r}, but this tvm-ios reads version {PLAN_VERSION}; "
            "export the model again with the installed version"
        )
