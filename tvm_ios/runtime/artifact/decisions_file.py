"""Files of decisions: exported models, what ``tvm-ios decisions export`` wrote, schedules in JSON.

No TVM here, so that a bad file is refused before anything is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvm_ios.errors import ArtifactError, OptionError, ScheduleError
from tvm_ios.runtime.artifact.decisions import Decisions, Origin
from tvm_ios.runtime.artifact.footer import read_footer, read_story

__all__ = ["MOST_GIVEN", "DecisionFiles", "read_decisions", "read_given"]

MOST_GIVEN = 4
"""Most files of decisions that race in one call: each lengthens the race by a contestant."""
DecisionFiles = str | Path | Sequence[str | Path] | None


def read_given(files: DecisionFiles) -> dict[str, Decisions]:
    """Decisions in a file or several, by file name.

    Raises
    ------
    OptionError
        If these are no paths, or more than :data:`MOST_GIVEN`.
    ArtifactError, ScheduleError
        As :func:`read_decisions`.
    """
    several = [files] if isinstance(files, str | Path) else files or ()
    if not isinstance(several, Sequence) or not all(isinstance(f, str | Path) for f in several):
        raise OptionError(f"decisions is {files!r}; give a file, or a list of files")
    if len(several) > MOST_GIVEN:
        raise OptionError(
            f"decisions has {len(several)} files; at most {MOST_GIVEN} race in one call"
        )
    return {str(path): read_decisions(Path(path)) for path in several}


def read_decisions(path: Path) -> Decisions:
    """Decisions in an exported model, in a file of decisions, or in a schedule in JSON.

    Raises
    ------
    ArtifactError
        If the file cannot be read, or is a model that tells nothing of its schedule.
    ScheduleError
        If its JSON holds no decisions.
    """
    if path.suffix.lower() != ".json":
        return _of_model(path)
    try:
        return Decisions.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"cannot read {path}: {error}") from error
    except ScheduleError as error:
        raise ScheduleError(f"{path}: {error}") from error


def _of_model(path: Path) -> Decisions:
    story, identity = read_story(path), read_footer(path).identity
    if story is None:
        raise ArtifactError(
            f"{path} was exported before files told of their models; export the model again"
        )
    evidence = story.evidence
    median_ns = None
    if evidence is not None and evidence.race.names:
        median_ns = round(evidence.race.median_ns(evidence.kept))
    return Decisions(
        schedule=story.schedule,
        graph=story.graph,
        origin=Origin(
            kept=evidence.kept if evidence else "",
            latency_ns=median_ns,
            target=identity.target,
            lanes=identity.lanes,
            machine=story.machine,
            versions=story.versions,
        ),
    )
