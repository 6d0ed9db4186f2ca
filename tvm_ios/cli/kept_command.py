"""The command line of ``tune`` as a call whose result may be kept. TVM is not loaded."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from tvm_ios.cost.database import default_database_path
from tvm_ios.driver.config import TuneConfig
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.kept.asked import Asked
from tvm_ios.driver.kept.file_model import models_digest
from tvm_ios.driver.kept.store import Kept, KeptResults
from tvm_ios.host.software import file_digest

__all__ = ["KeptCommand"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCommand:
    """A command line of ``tune``, with the key that its result is kept under."""

    arguments: argparse.Namespace
    config: TuneConfig
    models: Mapping[str, str]
    """Models by name."""
    shapes: Sequence[InputShapes]
    """Shapes that a single model is wanted in; of several models, those of them all."""
    asked: Asked | None
    """The call that the line asks for; None where its model cannot be read."""
    key: str
    """Key of the result; empty where it is not kept."""

    @classmethod
    def of(
        cls,
        arguments: argparse.Namespace,
        config: TuneConfig,
        models: Mapping[str, str],
        shapes: Sequence[InputShapes],
    ) -> Self:
        """Return the command line with its key, for which files of models are read."""
        asked = _asked(arguments, config, models, shapes)
        return cls(
            arguments=arguments,
            config=config,
            models=models,
            shapes=shapes,
            asked=asked,
            key="" if asked is None else asked.key(),
        )

    def find(self) -> Kept | None:
        """Result of an equal call; None where there is none."""
        return None if self.asked is None else self.asked.find(self.key)

    def keep(self, kept_as: str) -> None:
        """Have the line lead to the result of a key, unless files have changed since."""
        again = _asked(self.arguments, self.config, self.models, self.shapes)
        if kept_as and self.key and again is not None and again.key() == self.key:
            KeptResults().also(kept_as, self.key)


def _asked(
    arguments: argparse.Namespace,
    config: TuneConfig,
    models: Mapping[str, str],
    shapes: Sequence[InputShapes],
) -> Asked | None:
    model = models_digest(models, arguments.params, shapes, arguments.share)
    given = arguments.inputs
    if model is None or (given is not None and not given.is_file()):
        return None  # who tunes it says why
    return Asked(
        model=model,
        target=arguments.target or "",
        lanes=arguments.lanes,
        tuning=None,  # the options have it
        tuning_records=arguments.tuning_records,
        decisions=arguments.decisions,
        database=arguments.database or default_database_path(),
        inputs="" if given is None else file_digest(given),
        beside_stock=arguments.report is not None,
        **config.arguments(),
    )
