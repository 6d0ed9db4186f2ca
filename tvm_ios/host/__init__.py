"""The machine at hand: TVM, processor, devices. The only room that knows TVM versions.

Importing this package does not import TVM.
"""

from tvm_ios.host.gpu import GpuClocks, GpuReport, describe_gpu, read_clocks
from tvm_ios.host.latency import LatencyMode, core_to_core_ns, latency_mode
from tvm_ios.host.llvm_processor import require_known_processor
from tvm_ios.host.processor import (
    default_lanes,
    has_bfloat16,
    has_products_of_bytes,
    processor_name,
    target_candidates,
)
from tvm_ios.host.relay_tvm import cached_libinfo, host_target, require_relay_tvm, require_tvm
from tvm_ios.host.report import HostReport, describe_host
from tvm_ios.host.tvm_probe import TvmReport, describe_tvm

__all__ = [
    "GpuClocks",
    "GpuReport",
    "HostReport",
    "LatencyMode",
    "TvmReport",
    "cached_libinfo",
    "core_to_core_ns",
    "default_lanes",
    "describe_gpu",
    "describe_host",
    "describe_tvm",
    "has_bfloat16",
    "has_products_of_bytes",
    "host_target",
    "latency_mode",
    "processor_name",
    "read_clocks",
    "require_known_processor",
    "require_relay_tvm",
    "require_tvm",
    "target_candidates",
]
