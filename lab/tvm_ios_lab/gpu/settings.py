"""Settings of an evaluation, kept in its folder: every process reads the same."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

from tvm_ios.errors import ArtifactError, OptionError
from tvm_ios_lab.gpu.agenda import Case, Step, agenda
from tvm_ios_lab.harness.ledger import write_noun

__all__ = ["MAIN_NETWORKS", "NETWORKS", "Settings"]

MAIN_NETWORKS = ("inception_v3", "randwire", "nasnet_large", "squeezenet")
"""Networks of the IOS paper, over which geometric means are taken."""
NETWORKS = (
    "squeezenet",
    "randwire_small",
    "nasnet_small",
    "inception_v3",
    "randwire",
    "nasnet_large",
)
"""The fast ones first."""
BATCHED = "inception_v3"
"""The network that is also evaluated at larger batches."""
FIXED = ("quick", "rounds", "streams", "proof")
"""Settings that all calls on one folder have to agree in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of an evaluation but its budget."""

    networks: tuple[str, ...] = NETWORKS
    batch_sizes: tuple[int, ...] = (1, 16, 32, 64, 128)
    rounds: int = 20
    streams: int = 8
    tune_s: float = 120.0
    """Seconds of tuning for each network; 0 measures no tuned kernels but those of ``records``."""
    records: str | None = None
    """A folder of AutoTVM logs, ``NETWORK.autotvm.log``."""
    torch_python: str | None = None
    """The interpreter that has PyTorch; None where it takes no part."""
    compile_s: float = 180.0
    """Seconds that ``max-autotune`` may take for each network; 0 leaves it out."""
    quick: bool = False
    """The smallest networks and shortest measurements there are: shows that everything runs."""
    proof: bool = True
    """Whether outputs are proved before anything is measured."""

    @property
    def cases(self) -> tuple[Case, ...]:
        """Every network at batch 1, then the batches of :data:`BATCHED`."""
        single = [Case(network=name) for name in self.networks if 1 in self.batch_sizes]
        larger = [size for size in self.batch_sizes if size > 1 and BATCHED in self.networks]
        return (*single, *(Case(network=BATCHED, batch_size=size) for size in larger))

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps of the evaluation, the most worthwhile first."""
        return agenda(
            self.cases,
            tuned=[case for case in self.cases if self.is_tuned(case)],
            proof=self.proof,
            torch=self.torch_python is not None,
        )

    def is_tuned(self, case: Case) -> bool:
        """Whether it is evaluated with tuned kernels: larger batches only with records given."""
        return self.given_log(case) is not None or (self.tune_s > 0 and case.batch_size == 1)

    def given_log(self, case: Case) -> Path | None:
        """The log of ``records`` for a case; that of a batch size of its own goes first."""
        if self.records is None:
            return None
        for name in (case.name, case.network):
            path = Path(self.records) / f"{name}.autotvm.log"
            if path.exists():
                return path
        return None

    def write(self, folder: Path) -> None:
        """Write the settings into a folder; refuse one that was begun with others."""
        path = folder / "settings.json"
        if path.exists():
            before = self.read(folder)
            for name in FIXED:
                old, new = getattr(before, name), getattr(self, name)
                if old != new:
                    raise OptionError(
                        f"{folder} was begun with {name}={old!r}, and this call has {new!r}; "
                        "give the same, or another --output"
                    )
        write_noun(path, self)

    @classmethod
    def read(cls, folder: Path) -> Settings:
        """Settings of a folder."""
        path = folder / "settings.json"
        try:
            record = json.loads(path.read_text())
            values = {field.name: record[field.name] for field in fields(cls)}
            for name in ("networks", "batch_sizes"):
                values[name] = tuple(values[name])
            return cls(**values)
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{path} cannot be read: {error}; use another --output") from error
