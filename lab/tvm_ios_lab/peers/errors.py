"""Errors between TVM's networks and the peers that run them."""

from __future__ import annotations

from tvm_ios.errors import TvmIosError

__all__ = ["PeerError"]


class PeerError(TvmIosError):
    """A peer is missing, cannot run a network, or computes something else than TVM."""
