"""Calls of ``tune`` as far as they decide a result: the key that results are kept under. No TVM."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tvm_ios.cost.profile_key import digest_of
from tvm_ios.driver.build_options import DatabaseOptions
from tvm_ios.driver.kept.store import Kept, KeptResults
from tvm_ios.driver.options import TuneOptions
from tvm_ios.errors import HostError
from tvm_ios.host.processor import default_lanes, processor_name
from tvm_ios.host.software import (
    code_digest,
    file_digest,
    file_facts,
    package_versions,
    tvm_facts,
)
from tvm_ios.runtime.artifact.decisions_file import DecisionFiles
from tvm_ios.runtime.artifact.identity import read_processor
from tvm_ios.runtime.libraries.known import LIBRARIES
from tvm_ios.support.c_compiler import find_c_compiler
from tvm_ios.support.json_nouns import noun_record
from tvm_ios.tuning.options import default_records_path

__all__ = ["Asked"]

CPU = "llvm"
"""Kind of the targets whose results are kept. A GPU has a driver, clocks and neighbours that no
file tells of, and behind a tracker's key another device may answer each time."""
PACKAGES = ("numpy", "onnx", "onnx-ir", "onnxruntime")
"""Packages that read a model, or compute for it, besides TVM and the operator libraries."""
VARIABLES = (
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "TVM_LIBRARY_PATH",
    *("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_CPU_ISA_HINTS", "DNNL_CPU_ISA_HINTS"),
    *("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"),
)
"""Environment variables that decide which code is loaded, or what it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call of ``tune``, with a digest in the place of its model."""

    model: str
    """Digest of everything of the model that counts, and of its weights."""
    target: str
    """Text of the target; empty for the best one of this processor."""
    lanes: int | None
    tuning: str | None
    """Tuner that goes over that of the options; None where these say it."""
    tuning_records: str | Path | Sequence[str | Path] | None
    decisions: DecisionFiles
    time_budget: float | None
    database: Path
    """Path of the profile database. A result goes with it: without the file it is not taken."""
    options: TuneOptions
    inputs: str = ""
    """Digest of the inputs that errors are checked on; empty for made-up ones."""
    beside_stock: bool = False
    """True if the report is to know stock TVM as well; it says nothing of the model."""

    def key(self) -> str:
        """Key of the result; empty where it is not kept."""
        if KeptResults().is_off or self.options.device.is_remote:
            return ""
        if self.target and _kind(self.target) != CPU:
            return ""
        return digest_of(
            {
                "model": self.model,
                "target": self.target,
                "lanes": default_lanes() if self.lanes is None else self.lanes,
                "records": self._records(),
                "decisions": _file_digests(self.decisions),
                "database": str(self.database.resolve()),
                "options": self._options(),
                "inputs": self.inputs,
                "around": _surroundings(),
            }
        )

    def find(self, key: str) -> Kept | None:
        """Kept result of this call's key; None where there is none, or all is measured anew."""
        options = self.options
        if not key or options.database.fresh or not options.compare.reuse:
            return None
        if not self.database.exists():
            return None
        return KeptResults().find(
            key,
            self.time_budget,
            beside_stock=self.beside_stock,
            certain=options.measure.wait_quiet_s > 0,
        )

    @property
    def _tuner(self) -> str | None:
        return self.options.kernels.backend_for(self.tuning)

    def _records(self) -> list[str]:
        """Paths and digests of the logs of tuning records, in order."""
        if self._tuner is not None and not self.tuning_records:
            return _file_digests(default_records_path(self._tuner))
        return _file_digests(self.tuning_records)

    def _options(self) -> Any:
        """Options as plain data, but for those that only say whether earlier results count.

        Who waits for a quiet machine takes a certain result, and leaves one for all.
        """
        options = replace(
            self.options,
            kernels=self.options.kernels.used_by(self._tuner),
            database=DatabaseOptions(),
            compare=replace(self.options.compare, reuse=True),
            measure=replace(self.options.measure, wait_quiet_s=0.0),
        )
        record = noun_record(TuneOptions, options)
        record["search"]["strategies"] = sorted(
            strategy.value for strategy in options.search.strategies
        )
        return record


def _kind(target: str) -> str:
    """Kind of a target in words or in JSON; empty where that is broken."""
    if not target.startswith("{"):
        return target.split(maxsplit=1)[0]
    try:
        return str(json.loads(target).get("kind"))
    except ValueError:  # whoever reads it next says what is wrong
        return ""


def _file_digests(files: str | Path | Sequence[str | Path] | None) -> list[str]:
    """Path and digest of each file, in order; of a folder, those of the files in it."""
    several = [files] if isinstance(files, str | Path) else files or ()
    paths = [
        each
        for path in map(Path, several)
        for each in (sorted(path.iterdir()) if path.is_dir() else [path])
        if not each.is_dir()
    ]
    return [f"{file} {file_digest(file) if file.exists() else ''}" for file in paths]


def _surroundings() -> dict[str, Any]:
    """Machine and software that decide a result, by name."""
    processor = read_processor()
    return {
        "code": code_digest(),
        "python": platform.python_version(),
        "packages": package_versions(PACKAGES),
        "tvm": tvm_facts(),
        "libraries": {
            each.name.key: file_facts(each.files()) for each in LIBRARIES if each.target_kind == CPU
        },
        "compiler": _compiler(),
        # TVM's import sets it to NONE, which says the same as nothing.
        "tophub": os.environ.get("TOPHUB_LOCATION", "NONE"),
        "variables": {name: os.environ.get(name, "") for name in VARIABLES},
        "processor": [processor_name(), processor.architecture, processor.model],
        "features": sorted(processor.features),
        "cores": default_lanes(),
    }


def _compiler() -> list[str]:
    try:
        command = find_c_compiler()
    except HostError:
        return []
    return [*command, *file_facts([Path(shutil.which(command[0]) or command[0])])]
