"""The processor: number of cores this process may use, and TVM targets for it (TVM-free)."""

from __future__ import annotations

import os
import platform
from pathlib import Path

__all__ = [
    "ROUNDING",
    "default_lanes",
    "has_bfloat16",
    "has_products_of_bytes",
    "processor_name",
    "target_candidates",
    "usable_cores",
]

# Per x86 target, best first: the oldest LLVM that knows it, and features it must find in
# /proc/cpuinfo. The names stand for feature sets: they serve AMD processors as well.
_AVX512 = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
_AVX2 = frozenset({"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"})
ROUNDING = {"cascadelake": "cooperlake"}
"""Processors of LLVM, by those that differ from them in bfloat16 only."""
_X86_TARGETS = (
    ("cascadelake", 8, _AVX2 | _AVX512 | {"avx512_vnni"}),
    ("skylake-avx512", 4, _AVX2 | _AVX512),
    ("haswell", 4, _AVX2),
    ("ivybridge", 4, frozenset({"avx", "f16c"})),
)


def default_lanes(
    *, cgroup_root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> int:
    """Number of cores this process may use: affinity mask, cut by a cgroup quota; at least 1.

    A quota that is no whole number of cores is rounded down: a lane that the system throttles half
    of the time delays every stage.
    """
    cores = len(os.sched_getaffinity(0))
    quota = _cgroup_cores(cgroup_root, membership)
    return max(1, cores if quota is None else min(cores, int(quota)))


def usable_cores() -> tuple[int, ...]:
    """Cores this process may use, ascending.

    The union over its threads, since TVM binds its own threads to single cores.
    """
    cores: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        try:
            cores |= os.sched_getaffinity(int(thread.name))
        except ProcessLookupError:
            continue
    return tuple(sorted(cores))


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Marketing name of the processor, else its architecture and the numbers of its model."""
    if name := _cpuinfo_field(cpuinfo, "model name"):
        return name
    numbers = [_cpuinfo_field(cpuinfo, f"CPU {each}") for each in ("implementer", "part")]
    return " ".join((platform.machine(), *filter(None, numbers)))


def target_candidates(
    llvm_major: int, *, machine: str | None = None, cpuinfo: Path = Path("/proc/cpuinfo")
) -> tuple[str, ...]:
    """TVM targets that fit this processor and LLVM ``llvm_major``, the best first.

    The last one is plain ``"llvm"``, which always fits.
    """
    machine = (machine or platform.machine()).lower()
    if machine in ("x86_64", "amd64"):
        flags = set((_cpuinfo_field(cpuinfo, "flags") or "").split())
        found = [
            f"llvm -mcpu={name}"
            for name, oldest_llvm, needed in _X86_TARGETS
            if llvm_major >= oldest_llvm and needed <= flags
        ]
        return (*found, "llvm")
    if machine in ("aarch64", "arm64"):
        features = set((_cpuinfo_field(cpuinfo, "Features") or "").split())
        neon = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"
        dot = [f"{neon},+v8.2a,+dotprod"] if "asimddp" in features else []
        return (*dot, neon, "llvm")
    return ("llvm",)


def has_products_of_bytes(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """True if this processor multiplies vectors of bytes by fours (``avx512_vnni``)."""
    return "avx512_vnni" in (_cpuinfo_field(cpuinfo, "flags") or "").split()


def has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """True if this processor multiplies and rounds vectors of bfloat16 (``avx512_bf16``)."""
    return "avx512_bf16" in (_cpuinfo_field(cpuinfo, "flags") or "").split()


def _cpuinfo_field(cpuinfo: Path, name: str) -> str | None:
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        key, separator, value = line.partition(":")
        if separator and key.strip() == name:
            return value.strip()
    return None


def _cgroup_cores(root: Path, membership: Path) -> float | None:
    """Smallest CPU quota of this process's cgroups and their parents, in cores."""
    quotas = []
    for controllers, group in _memberships(membership):
        if controllers == "":
            bases, read = [root, root / "unified"], _quota_v2
        elif "cpu" in controllers.split(","):
            bases, read = [root / controllers, root / "cpu"], _quota_v1
        else:
            continue
        for base in bases:
            folder = base / group.lstrip("/")
            # Inside a container the path may belong to the outside; its root is then ours.
            for level in (folder, *folder.parents):
                if level != base and base not in level.parents:
                    break
                quotas.append(read(level))
    return min((quota for quota in quotas if quota is not None), default=None)


def _memberships(membership: Path) -> list[tuple[str, str]]:
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return []
    fields = [line.split(":", 2) for line in lines]
    return [(field[1], field[2]) for field in fields if len(field) == 3]


def _quota_v2(folder: Path) -> float | None:
    return _ratio((_read(folder / "cpu.max") or "").split())


def _quota_v1(folder: Path) -> float | None:
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    return _ratio([quota or "", period or ""])


def _ratio(fields: list[str]) -> float | None:
    """Cores of a quota and its period; None for no quota ("max" or -1) or an unreadable one."""
    try:
        quota, period = map(int, fields)
    except ValueError:
        return None
    return quota / period if quota > 0 and period > 0 else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
