"""Results of ``tune`` on disk, found by the digest of everything that decided them. No TVM.

A result is an exported file, and an entry with its report: ``NAME.so`` and ``KEY.entry`` in the
folder ``kept`` of the cache. Both are written aside and renamed. Neither is written through to the
disk: both carry digests, and what a lost power supply tore is made anew.
"""

from __future__ import annotations

import logging
import os
import pickle
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tvm_ios.errors import ArtifactError, OptionError
from tvm_ios.report.shapes_report import ShapesReport
from tvm_ios.report.tune_report import TuneReport
from tvm_ios.runtime.artifact.footer import Footer, read_footer
from tvm_ios.support.cache_folder import cache_directory, own_folder, require_own, trim_folder
from tvm_ios.support.whole_file import sealed, unsealed, write_bytes

__all__ = ["MOST_MIB", "SIZE_VARIABLE", "Kept", "KeptResult", "KeptResults"]

_LOG = logging.getLogger(__name__)

SIZE_VARIABLE = "TVM_IOS_KEPT_MIB"
"""Environment variable with another limit; 0 keeps nothing and takes nothing."""
MOST_MIB = 4096
"""Limit of all kept results in MiB: those of forty networks with the weights of ResNet-50."""
DOUBTFUL_S = 3600.0
"""Seconds that a result serves which was decided on a disturbed machine: a schedule that lost there
may win by half a quarter of an hour later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult:
    """Result of a call of ``tune``, and for which later calls it is good."""

    report: TuneReport | ShapesReport
    notes: tuple[str, ...]
    """Lines for the user on how the module was prepared."""
    certain: bool
    """True if no price, choice or race was taken while the machine was disturbed."""
    time_budget: float | None
    """Seconds that the call had; None where there was no limit."""
    beside_stock: bool = False
    """True if a race with stock TVM was asked for."""
    made_at_s: float = field(default_factory=time.time)
    """Time of making, in seconds since 1970."""
    file: str = field(default_factory=lambda: f"{secrets.token_hex(16)}.so")
    """Name of the exported file."""

    def serves(
        self, time_budget: float | None, *, beside_stock: bool, certain: bool = False
    ) -> bool:
        """True if a call may take this result now; ``certain`` if it takes no doubtful one.

        One of a time budget serves calls with as little time: more of it may lead further, even
        where nothing was cut. A doubtful one serves for an hour.
        """
        if (beside_stock and not self.beside_stock) or (certain and not self.certain):
            return False
        had = self.time_budget
        if had is not None and (time_budget is None or time_budget > had):
            return False
        return self.certain or time.time() - self.made_at_s < DOUBTFUL_S

    def as_text(self) -> str:
        """Line of text: since when it is kept, until when it serves, how to measure anew."""
        doubt = ""
        if not self.certain:
            end = time.strftime("%H:%M", time.localtime(self.made_at_s + DOUBTFUL_S))
            doubt = f", while the machine was disturbed: it is measured anew from {end} on"
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.made_at_s))
        return (
            f"kept from an equal call of {when}{doubt}; nothing was built or measured now "
            "(--fresh measures all anew)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A result that was found, whole and good for the call."""

    result: KeptResult
    path: Path
    """Path of the exported file, whose digest was right."""
    footer: Footer


class KeptResults:
    """Results by key, in a folder of its own.

    Beyond the limit of all bytes, those not used for longest go.

    Raises
    ------
    OptionError
        If the environment variable is no whole number.
    """

    def __init__(self) -> None:
        text = os.environ.get(SIZE_VARIABLE) or str(MOST_MIB)
        if not text.isdecimal():
            raise OptionError(
                f"{SIZE_VARIABLE} is {text!r}; give a whole number of MiB, 0 to keep no results"
            )
        self._most_bytes = int(text) << 20
        self.folder = own_folder(cache_directory() / "kept")

    @property
    def is_off(self) -> bool:
        """True if nothing is kept."""
        return not self._most_bytes

    def find(
        self,
        key: str,
        time_budget: float | None,
        *,
        beside_stock: bool = False,
        certain: bool = False,
    ) -> Kept | None:
        """Result of a key for a call with a time budget; None where there is none or no whole one.

        ``beside_stock`` asks for a report that knows stock TVM, where it could be raced,
        ``certain`` for a result of a quiet machine.
        A damaged result is told and dropped.
        """
        result = self._read(self._entry(key))
        if result is None or not result.serves(
            time_budget, beside_stock=beside_stock, certain=certain
        ):
            return None
        path = self.folder / result.file
        require_own(path)
        if not path.exists():  # it was trimmed
            return None
        try:
            footer = read_footer(path)
        except ArtifactError as error:
            self._drop(path, str(error))
            return None
        for used in (path, self._entry(key)):
            with suppress(OSError):  # a cache that can only be read still serves
                os.utime(used)
        return Kept(result=result, path=path, footer=footer)

    def keep(self, key: str, result: KeptResult, export: Callable[[Path], None]) -> bool:
        """Store a result and the file that ``export`` writes; return whether it is kept.

        A warning says if it cannot be written, and nothing is lost.
        """
        try:
            export(self.folder / result.file)
            (self.folder / result.file).chmod(0o644)  # linkers leave it to the umask
            write_bytes(self._entry(key), sealed(pickle.dumps(result)), mode=0o644)
            trim_folder(self.folder, self._most_bytes)
        except (ArtifactError, OSError) as error:
            _LOG.warning("the result is not kept for the next call: %s", error)
            return False
        return True

    def result_of(self, key: str) -> KeptResult | None:
        """Result that was just kept; None for an empty key, or without one."""
        return self._read(self._entry(key)) if key else None

    def file_of(self, key: str) -> Path | None:
        """Exported file of a result that was just kept; None for an empty key, or without one."""
        result = self.result_of(key)
        path = None if result is None else self.folder / result.file
        return path if path is not None and path.exists() else None

    def also(self, key: str, other: str) -> None:
        """Have another key lead to the result of a key."""
        with suppress(OSError):  # where the one could be written, the other mostly can
            write_bytes(self._entry(other), self._entry(key).read_bytes(), mode=0o644)

    def _entry(self, key: str) -> Path:
        return self.folder / f"{key}.entry"

    def _read(self, entry: Path) -> KeptResult | None:
        require_own(entry)
        try:
            content = unsealed(entry.read_bytes())
        except OSError:
            return None
        if content is None:
            self._drop(entry, f"{entry}: the content does not match its digest")
            return None
        # Code of ours alone may lie in this folder, and what it runs: see require_own().
        result: KeptResult = pickle.loads(content)  # noqa: S301
        return result

    def _drop(self, path: Path, reason: str) -> None:
        _LOG.warning("a kept result is damaged, and made anew: %s", reason)
        with suppress(OSError):
            path.unlink()
