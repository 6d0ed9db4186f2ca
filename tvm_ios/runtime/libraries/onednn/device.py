"""oneDNN on a processor: prepared calls, and the parts that lanes compute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache, partial

from tvm_ios.errors import ExecutionError, HostError
from tvm_ios.runtime.base.lane_pool import LanePool, LaunchFailedError
from tvm_ios.runtime.libraries.facts import find_facts, known_facts
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, OnednnCut
from tvm_ios.runtime.libraries.onednn.call_data import counts_of
from tvm_ios.runtime.libraries.onednn.cuts import Counts, candidates
from tvm_ios.runtime.libraries.onednn.library import OnednnRefusalError, load_onednn
from tvm_ios.runtime.libraries.onednn.native_calls import (
    CALLS_SOURCE,
    NativeOnednn,
    OnednnPreparedCall,
)
from tvm_ios.runtime.libraries.onednn.search import fastest_counts
from tvm_ios.runtime.libraries.processor import Processor, ThisProcessor
from tvm_ios.runtime.libraries.protocol import FactStore, LibraryLane

__all__ = ["OnednnLane", "OnednnProcessor"]

_NOBODY = LibraryLane(take_workspace=0, give_workspace=0)
"""No lane: a call that is prepared for it is not made."""
NOT_COMPUTED = "none"
"""Stored in place of a cut where oneDNN has no fast code for a call."""


class OnednnProcessor:
    """oneDNN on a processor: prepares calls, and finds each one's fastest number of parts.

    An :class:`~tvm_ios.runtime.libraries.protocol.OpenLibrary`, whose docstrings hold here, too.
    The processor is this one where omitted. Cuts are tried on all of its usable cores unless
    ``lanes`` says how many. Without a store, and with one that cannot be used, they are found anew
    for each object of this class.
    """

    def __init__(
        self,
        processor: Processor | None = None,
        *,
        store: FactStore | None = None,
        lanes: int | None = None,
    ) -> None:
        # Its code stays loaded as long as this uses it.
        self._processor: Processor = ThisProcessor() if processor is None else processor
        self._opened: NativeOnednn | None = None
        self.facts = self._native.facts
        """Version and instruction sets of the oneDNN there."""
        self._store = store
        self._lanes = self._processor.cores if lanes is None else lanes
        self._found: dict[str, _Found] = {}

    def complete(self, calls: Iterable[OnednnCall]) -> dict[OnednnCall, OnednnCall | None]:
        """Calls with a cut of this processor and oneDNN; the value is None without fast code."""
        wanted = list(calls)
        unknown = {
            call.as_text(): call
            for call in wanted
            if not self._fits(call.cut) and call.as_text() not in self._found
        }
        # Cuts that were found without the time to read weights have another subject.
        subject = f"parts, weights and times of oneDNN {self._version} on {self._device}"
        # Layouts were chosen by calls without steps, which another object of this class timed.
        bare = {text: call.bare() for text, call in unknown.items()}
        names = {call.as_text() for call in bare.values()} - self._found.keys()
        self._note(known_facts(self._store, subject, names))
        # Those in bfloat16 were not, and times of both types have to be of the same work.
        first = {
            name: each
            for text, each in bare.items()
            if unknown[text].is_low and (name := each.as_text()) not in self._found
        }
        with ExitStack() as undo:
            pool = cache(partial(self._pool, undo))
            for asked in (first, unknown):
                self._note(
                    find_facts(self._store, subject, asked, lambda call: self._find(call, pool()))
                )
        return {call: self._completed(call) for call in wanted}

    def found_ns(self, call: OnednnCall) -> int | None:
        """Nanoseconds that the call took on all lanes when its cut was found; None without a time.

        Where the cut is that of the call without its steps, so is the time.
        """
        found = self._found.get(call.as_text())
        return None if found is None or not found.least_ns else found.least_ns

    def price_name(self, call: OnednnCall) -> str:
        """Version, instruction sets and parts of a complete call, and a digest of the calling code.

        Constant weights count, too: they are reordered once, others in every run.
        """
        assert call.cut is not None, "complete() gives every call one"
        weights = "-constant" if call.weight is not None and call.weight.constant else ""
        return f"{self._version}-{call.cut.as_text()}{weights}-{CALLS_SOURCE.digest}"

    def on_lane(self, lane: LibraryLane) -> OnednnLane:
        """Maker of calls for any lane."""
        return OnednnLane(self, lane)

    def as_text(self) -> str:
        """Name and version of oneDNN, and the instruction sets it uses."""
        return self.facts.as_text()

    def prepare(
        self, call: OnednnCall, counts: Counts, where: str, lane: LibraryLane, undo: ExitStack
    ) -> OnednnPreparedCall:
        """A call as a whole and in parts; ``undo`` frees what it takes."""
        prepared = self._native.prepare(call, counts, where, lane)
        undo.callback(prepared.close)
        return prepared

    def close(self) -> None:
        """Destroy the engine, until there is a call to prepare; may be called twice."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    @property
    def _native(self) -> NativeOnednn:
        if self._opened is None:
            here = isinstance(self._processor, ThisProcessor)
            self._opened = NativeOnednn(self._processor, load_onednn() if here else None)
        return self._opened

    def _note(self, facts: Mapping[str, str]) -> None:
        self._found |= {text: self._read(value) for text, value in facts.items()}

    def _completed(self, call: OnednnCall) -> OnednnCall | None:
        if self._fits(call.cut):
            return call
        cut = self._found[call.as_text()].cut
        return None if cut is None else replace(call, cut=cut)

    def _fits(self, cut: OnednnCut | None) -> bool:
        here = (self._device, self._version)
        return cut is not None and (cut.device, cut.version) == here

    def _pool(self, undo: ExitStack) -> LanePool | None:
        """Lanes to try cuts on; None where there is no C compiler for them."""
        try:
            pool = self._processor.pool(self._lanes)
        except HostError:
            return None
        undo.callback(pool.close)
        return pool

    def _find(self, call: OnednnCall, pool: LanePool | None) -> tuple[str, bool]:
        """Cut as text for the store, and True if it was tried."""
        if pool is None:
            return self._guess(call), False
        return self._as_without_steps(call) or self._search(call, pool), True

    def _as_without_steps(self, call: OnednnCall) -> str | None:
        """Answer for the call without its steps, as text; None where it is unknown or refused."""
        bare = self._found.get(call.bare().as_text())
        if bare is None or bare.cut is None:
            return None
        with ExitStack() as undo, suppress(OnednnRefusalError):
            counts = (bare.cut.batches, bare.cut.channels, bare.cut.rows)
            self.prepare(call, counts, call.as_text(), _NOBODY, undo)
            return _text_of(counts, bare.least_ns)
        return None

    def _guess(self, call: OnednnCall) -> str:
        """Untried cut as text, not to be stored: one part a lane if possible."""
        ways = candidates(call, self._lanes)
        fitting = next((each for each in ways if math.prod(each) == self._lanes), ways[0])
        for counts in dict.fromkeys((fitting, ways[0])):
            with ExitStack() as undo, suppress(OnednnRefusalError):
                self.prepare(call, counts, call.as_text(), _NOBODY, undo)
                return _text_of(counts, 0)
        return NOT_COMPUTED

    def _search(self, call: OnednnCall, pool: LanePool) -> str:
        """Fastest cut as text, or :data:`NOT_COMPUTED` where oneDNN has no fast code."""
        where = f"the search of a cut for {call.as_text()}"
        lane = self._processor.lane
        ways: dict[Counts, OnednnPreparedCall] = {}
        with ExitStack() as undo:
            for counts in candidates(call, self._lanes):
                # Parts may be of a shape that only reference code computes.
                with suppress(OnednnRefusalError):
                    ways[counts] = self.prepare(call, counts, where, lane, undo)
            if not ways:
                return NOT_COMPUTED
            # The whole runs wherever nobody helps, and prices decide where that pays. Found to be
            # the fastest on a busy machine, it would be without help for ever.
            if len(ways) > 1:
                ways.pop((1, 1, 1), None)
            try:
                return _text_of(*fastest_counts(self._processor, pool, call, ways))
            except LaunchFailedError as error:
                reasons = filter(None, (prepared.failure(where) for prepared in ways.values()))
                other = ExecutionError(f"{where} failed: {error.text.strip()}")
                raise next(reasons, other) from error

    def _read(self, value: str) -> _Found:
        if value == NOT_COMPUTED:
            return _Found()
        counts, least_ns = value.split()
        batches, channels, rows = map(int, counts.split("x"))
        cut = OnednnCut(
            batches=batches,
            channels=channels,
            rows=rows,
            device=self._device,
            version=self._version,
        )
        return _Found(cut, int(least_ns))

    @property
    def _version(self) -> str:
        return self.facts.identity

    @property
    def _device(self) -> str:
        return f"{self._processor.name}, lanes: {self._lanes}"


@dataclass(frozen=True, slots=True)
class _Found:
    """Answer of a search for the parts of a call."""

    cut: OnednnCut | None = None
    """Fastest numbers of parts of the call; None where oneDNN has no fast code for it."""
    least_ns: int = 0
    """Least nanoseconds of the call so cut; 0 where it was not timed."""


def _text_of(counts: Counts, least_ns: float) -> str:
    return f"{'x'.join(map(str, counts))} {round(least_ns)}"


class OnednnLane:
    """oneDNN for one executor, whose lanes make the calls."""

    def __init__(self, processor: OnednnProcessor, lane: LibraryLane) -> None:
        self._processor = processor
        self._lane = lane
        self._undo = ExitStack()

    def prepare(self, call: OnednnCall, operator: str) -> OnednnPreparedCall:
        """A call ready to be made; ExecutionError if oneDNN refuses it."""
        where = f"operator {operator!r}, {call.as_text()}"
        return self._processor.prepare(call, counts_of(call), where, self._lane, self._undo)

    def close(self) -> None:
        """Destroy what was made for the calls; twice is fine."""
        self._undo.close()
