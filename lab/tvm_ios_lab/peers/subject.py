"""Subject of a measurement: a network at a batch size."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import NETWORKS

__all__ = [
    "DEFAULT_SUBJECTS",
    "EXPORTED",
    "Subject",
    "add_subject_options",
    "member_folders",
    "subject_argument",
]

_AND = "+"

EXPORTED = Path("out/peers")
"""Folder of the networks unless another one is given."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A network at a batch size, or several that run together, with ``+`` between their names.

    Examples
    --------
    >>> Subject.parse("resnet_50:8").stem
    'resnet_50_bs8'
    >>> [member.stem for member in Subject.parse("squeezenet+resnet_50").members]
    ['squeezenet_bs1', 'resnet_50_bs1']
    """

    network: str
    batch_size: int = 1

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise PeerError(f"{self.network}: batch size is {self.batch_size}; give at least 1")

    @property
    def stem(self) -> str:
        """Name of its folder and of its result, without the ending."""
        return f"{self.network}_bs{self.batch_size}"

    @property
    def members(self) -> tuple[Subject, ...]:
        """Each network; itself where it is one."""
        return tuple(Subject(name, self.batch_size) for name in self.network.split(_AND))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``NETWORK`` or ``NETWORK:BATCH``, as a command line has it."""
        network, _, batch = text.partition(":")
        if batch and not batch.isdecimal():
            raise PeerError(f"{text!r} is no NETWORK or NETWORK:BATCH, such as resnet_50:8")
        return cls(network, int(batch or 1))


def member_folders(folder: Path) -> list[Path]:
    """Folders of the networks that a subject's folder is of, beside it; itself where it is one."""
    names, _, batch = folder.name.rpartition("_bs")
    if _AND not in names:
        return [folder]
    return [folder.parent / member.stem for member in Subject(names, int(batch)).members]


DEFAULT_SUBJECTS = (
    *map(Subject, NETWORKS),
    Subject("resnet_50", 8),
    Subject("inception_v3", 8),
)


def subject_argument(text: str) -> Subject:
    """A network as an argument of a command line, refused as argparse refuses arguments."""
    try:
        return Subject.parse(text)
    except PeerError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_subject_options(parser: argparse.ArgumentParser) -> None:
    """Declare which networks, and the folder that has a folder for each."""
    parser.add_argument(
        "--folder", type=Path, default=EXPORTED, help="has one folder a network (%(default)s)"
    )
    parser.add_argument(
        "--networks",
        nargs="+",
        type=subject_argument,
        default=list(DEFAULT_SUBJECTS),
        metavar="NAME[:BATCH]",
        help="which of them (all at batch 1, and resnet_50:8 and inception_v3:8); NAME+NAME are "
        "several that run together",
    )
