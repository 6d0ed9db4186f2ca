"""Bounds of a scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.errors import JobError

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds that hold whatever the policy says."""

    max_active: int = 4
    """Workers alive at a time; a TVM worker takes about 200 MB."""
    max_wait_s: float = 120.0
    """A stage that has waited longer goes before all younger ones, and what it needs is kept."""
    max_start_wait_s: float = 86400.0
    """A job that has waited longer for its worker is the next to get one."""

    def __post_init__(self) -> None:
        if self.max_active < 1:
            raise JobError(f"max_active is {self.max_active}: at least 1 worker must be alive")
        for name in ("max_wait_s", "max_start_wait_s"):
            if not getattr(self, name) >= 0:  # nor is it no number
                raise JobError(f"{name} is {getattr(self, name)}; give seconds of 0 or more")
