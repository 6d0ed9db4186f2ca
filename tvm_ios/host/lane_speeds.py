"""Speeds of a lane of this machine: measured once, then kept in the cache folder. No TVM.

What predicts times and bounds them reads these. Each number is the best of many short samples, so
that others on the machine disturb it little, and has two significant digits, so that it is the same
tomorrow.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tvm_ios.errors import HostError
from tvm_ios.host.latency import LatencyMode, core_to_core_ns, latency_mode
from tvm_ios.host.processor import processor_name, usable_cores
from tvm_ios.support.c_compiler import NativeSource
from tvm_ios.support.cache_folder import cache_directory, own_folder, require_own
from tvm_ios.support.json_nouns import noun_from, to_json
from tvm_ios.support.stored_value import UnreadableValueError, parse_json
from tvm_ios.support.whole_file import write_bytes

__all__ = ["LANE_SPEEDS", "LaneSpeeds", "kept_speeds", "lane_speeds", "measure_speeds"]

LANE_SPEEDS = NativeSource(Path(__file__).with_name("native") / "lane_speeds.c")
_LONG = ctypes.c_int64
_STEPS = 50_000
"""Steps of a sample of multiply-adds, a quarter of a millisecond: it falls between disturbances."""
_SAMPLES = 40
_MEMORY_BYTES = 64 << 20
"""Bytes of each of two buffers that no cache of one core holds."""
_PART_BYTES = 4 << 20
_LAPS = 3
"""Times that the buffers are walked through; in the first their pages are still new."""
_CACHE_LAPS = 200
_SHARED_CACHES = 16
"""Size of the cache that cores share, over that of the second one: virtual machines do not say."""
_USUAL_CACHE_BYTES = 1 << 19
"""Second cache of a core where the system does not say."""
SHARE_OF_CACHE = 0.12
"""Share of a lane's speed within its second cache at which values go from operator to operator."""

_SPEEDS = ("flops_per_ns", "memory_bytes_per_ns", "shared_bytes_per_ns", "cached_bytes_per_ns")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSpeeds:
    """Speeds of one lane, the others idle: hardly any kernel exceeds them."""

    flops_per_ns: float
    """Float32 operations a nanosecond (GFLOP/s); a multiply-add counts as two."""
    memory_bytes_per_ns: float
    """Bytes read or written a nanosecond, of buffers that no cache holds."""
    shared_bytes_per_ns: float
    """Bytes read or written a nanosecond of buffers four times as large as the second cache."""
    cached_bytes_per_ns: float
    """Bytes read or written a nanosecond within the second cache."""
    cache_bytes: int
    """Bytes of the second cache, which a core has for itself."""
    hop_ns: float
    """Nanoseconds until another core sees what a core wrote; 0 where there is one core."""
    launch_ns: float
    """Nanoseconds from one kernel to the next on a lane."""

    def moved_ns(self, size_bytes: float) -> float:
        """Nanoseconds to read and write so many bytes: what caches hold comes from there.

        The cache that cores share counts as sixteen times the second one.
        """
        cached = min(size_bytes, self.cache_bytes)
        shared = min(size_bytes - cached, (_SHARED_CACHES - 1) * self.cache_bytes)
        return (
            cached / self.cached_bytes_per_ns
            + shared / self.shared_bytes_per_ns
            + (size_bytes - cached - shared) / self.memory_bytes_per_ns
        )

    def passed_ns(self, size_bytes: float, lanes: int) -> float:
        """Nanoseconds that bytes take from operator to operator, written or read on some lanes."""
        return size_bytes / (SHARE_OF_CACHE * self.cached_bytes_per_ns * lanes)

    def bound_ns(self, flops: int, size_bytes: int) -> float:
        """Nanoseconds that bound a kernel: of its arithmetic, of its bytes, of its start.

        Some come below: the first cache is faster, and padding need not be computed.
        """
        return max(flops / self.flops_per_ns, self.moved_ns(size_bytes), self.launch_ns)

    def as_text(self) -> str:
        """Speeds as one line of text."""
        return (
            f"{self.flops_per_ns:g} GFLOP/s of float32; {self.cached_bytes_per_ns:g} GB/s within "
            f"{self.cache_bytes / 2**20:g} MiB, {self.shared_bytes_per_ns:g} beyond, "
            f"{self.memory_bytes_per_ns:g} from memory; {self.hop_ns:g} ns to another core, "
            f"{self.launch_ns:g} ns to start a kernel"
        )


@cache
def lane_speeds() -> LaneSpeeds | None:
    """Speeds of a lane of this machine; None where there is no C compiler, or no thread.

    The first call on a machine takes a third of a second.
    """
    try:
        return kept_speeds(own_folder(cache_directory() / "lane_speeds"))
    except (HostError, OSError) as error:
        _LOG.info("speeds of a lane are not measured: %s", error)
        return None


def kept_speeds(folder: Path, measure: Callable[[], LaneSpeeds] | None = None) -> LaneSpeeds:
    """Speeds that a folder has for this machine; they are measured where it has none.

    They are kept under processor, cores and the digest of what measures. A damaged file is told and
    made anew. Processes that measure at once each write a whole file, and the last one's stays. In
    the slow mode of a virtual machine nothing is kept.
    """
    path = folder / f"{_key()}.json"
    require_own(path)
    known = _read(path)
    if known is not None:
        return known
    found = (measure or measure_speeds)()
    if latency_mode(found.hop_ns) is LatencyMode.SLOW:
        return found
    try:
        write_bytes(path, f"{to_json(LaneSpeeds, found)}\n".encode(), mode=0o644)
    except OSError as error:
        _LOG.warning("speeds of a lane are measured again next time: cannot write %s", error)
    return found


def measure_speeds() -> LaneSpeeds:
    """Speeds of the first core of this process, measured now.

    Raises
    ------
    HostError
        If there is no C compiler, no thread or no memory.
    """
    native, core = LANE_SPEEDS.library, usable_cores()[0]
    peak = _function(native.tvm_ios_peak_gflops, ctypes.POINTER(ctypes.c_int), ctypes.c_int, _LONG)
    moved = _function(native.tvm_ios_moved_bytes_per_ns, ctypes.c_int, _LONG, _LONG, _LONG)
    launch = _function(native.tvm_ios_launch_ns, ctypes.c_int, _LONG)
    native.tvm_ios_second_cache_bytes.restype = _LONG
    cache_bytes = native.tvm_ios_second_cache_bytes() or _USUAL_CACHE_BYTES
    half = max(4096, cache_bytes // 4 // 4096 * 4096)
    return LaneSpeeds(
        flops_per_ns=max(
            _rounded(peak(ctypes.byref(ctypes.c_int(core)), 1, _STEPS)) for _ in range(_SAMPLES)
        ),
        memory_bytes_per_ns=_rounded(moved(core, _MEMORY_BYTES, _PART_BYTES, _LAPS)),
        shared_bytes_per_ns=_rounded(moved(core, 8 * half, 8 * half, _CACHE_LAPS // 8)),
        cached_bytes_per_ns=_rounded(moved(core, half, half, _CACHE_LAPS)),
        cache_bytes=cache_bytes,
        hop_ns=_rounded(core_to_core_ns() or 0.0),
        launch_ns=_rounded(launch(core, _SAMPLES)),
    )


def _function(function: Callable[..., float], *arguments: type) -> Callable[..., float]:
    """A function of the library with its types."""
    function.restype = ctypes.c_double  # type: ignore[attr-defined]
    function.argtypes = arguments  # type: ignore[attr-defined]
    return function


def _rounded(measured: float) -> float:
    """A number with two significant digits; HostError where none could be measured."""
    if measured < 0:
        raise HostError("no thread or memory to measure the speeds of a lane; see ulimit -a")
    return float(f"{measured:.2g}")


def _key() -> str:
    """Digest of all that the speeds depend on, but for what else runs on the machine."""
    facts = (processor_name(), usable_cores(), LANE_SPEEDS.digest)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _read(path: Path) -> LaneSpeeds | None:
    """Speeds in a file; None where it is missing or damaged."""
    try:
        return _speeds_in(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnreadableValueError, UnicodeDecodeError) as error:
        _LOG.warning("speeds of a lane are measured anew, since %s is damaged: %s", path, error)
        return None


def _speeds_in(text: str) -> LaneSpeeds:
    found = noun_from(LaneSpeeds, parse_json(text, "the file"), whole=True)
    for name in _SPEEDS:
        if getattr(found, name) <= 0:
            raise UnreadableValueError(
                f"{name} is {getattr(found, name)}; expected a speed above 0"
            )
    return found
