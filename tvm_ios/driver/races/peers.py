"""Other frameworks in our races, where a distribution offers them.

An entry point of the group ``tvm_ios.peers`` is a function from module, parameters and the number
of lanes to :class:`PeerContestant` nouns; it returns none where its framework is not installed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from tvm_ios.errors import TvmIosError
from tvm_ios.measure.sampling import TimedRuns

__all__ = ["PeerContestant", "installed_peers"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerContestant:
    """Another framework, with a network loaded and inputs set."""

    name: str
    explanation: str
    """Line for people on what runs."""
    time_ns: TimedRuns


def installed_peers(mod: Any, params: Mapping[str, Any], *, lanes: int) -> list[PeerContestant]:
    """Contestants of all frameworks that are installed and know the network's operators."""
    found: list[PeerContestant] = []
    for entry in entry_points(group="tvm_ios.peers"):
        try:
            found += entry.load()(mod, params, lanes=lanes)
        except (ImportError, TvmIosError) as error:
            _LOG.warning("%s does not race: %s", entry.name, error)
    return found
