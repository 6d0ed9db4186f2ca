"""Facts of this machine and versions of its software, for every stored number."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from tvm_ios.host.processor import default_lanes, processor_name

__all__ = ["llvm_version", "machine_facts", "package_version", "source_commit", "version_facts"]


def machine_facts() -> dict[str, str]:
    """Processor, cores that this process may use, memory and kernel, by name."""
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": processor_name(),
        "cores": str(default_lanes()),
        "memory GiB": f"{pages / 2**30:.0f}",
        "kernel": platform.release(),
    }


def package_version() -> str:
    """Version of tvm-ios; ``from the checkout`` where Python's path has one."""
    try:
        return metadata.version("tvm-ios")
    except metadata.PackageNotFoundError:
        return "from the checkout"


def version_facts() -> dict[str, str]:
    """Versions of tvm-ios, TVM (which this loads), LLVM and Python, by name."""
    tvm: Any = import_module("tvm")
    return {
        "tvm-ios": package_version(),
        "tvm": tvm.__version__,
        "llvm": llvm_version(tvm) or "unknown",
        "python": platform.python_version(),
    }


def llvm_version(tvm: Any) -> str | None:
    """Version of a TVM's LLVM, the major one where newer TVMs say no more; None without LLVM."""
    told = tvm.support.libinfo().get("LLVM_VERSION")
    told = told or tvm.target.codegen.llvm_version_major(allow_none=True)
    # A string of TVM would import TVM where a kept result is read.
    return str(told) if told else None


def source_commit() -> str:
    """Commit of this package's checkout, with ``-dirty`` where files differ from it.

    Empty where it is installed without its history, or git is missing.
    """
    # A package that lies in the checkout of somebody else's project is not at that one's commit.
    if not _git("ls-files", "--error-unmatch", Path(__file__).name):
        return ""
    # Without --exclude=* a tag's name would stand in place of the commit.
    return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def _git(*words: str) -> str:
    """Output of git in the folder of this file; empty where git refuses."""
    folder = Path(__file__).resolve().parent
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
