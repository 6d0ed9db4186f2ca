"""Installation of the wheel with a TVM with Relay, and of the packages that TVM needs."""

from __future__ import annotations

import logging
import platform
import re
import shlex
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tvm_ios.errors import HostError
from tvm_ios.install.compiled_ffi import compiled_ffi
from tvm_ios.install.finder import has_relay, usual_spec
from tvm_ios.install.hook import write_hook
from tvm_ios.support.error_text import lines_that_tell
from tvm_ios.support.messages import is_quiet

__all__ = ["Installation", "install_relay_tvm", "site_packages_directory", "wheel_is_installed"]

_LOG = logging.getLogger(__name__)

_HERE = Path(__file__).parent
_REQUIREMENTS = _HERE / "requirements.txt"
_WHEEL = _HERE / "wheel.txt"
_PLACE = re.compile(r"\w+://[^\s'\")]+|(?<=host=)'[^']*'|(?<=resolve )'[^']*'")
"""Address or host in a message of pip; it may be private, or hold a password."""
_PLATFORMS = ("x86_64", "amd64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Steps that `install_relay_tvm` took, one line each."""

    steps: tuple[str, ...]

    def as_text(self) -> str:
        """Steps as text, one a line."""
        return "\n".join(self.steps)


def site_packages_directory() -> Path:
    """Folder that pip installs into for this interpreter."""
    return Path(sysconfig.get_path("purelib"))


def wheel_is_installed() -> bool:
    """True if the pinned version of the wheel is installed with its TVM in place."""
    name, _, version = _pinned_wheel().partition("==")
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return installed == version and (_package() / "__init__.py").is_file()


def install_relay_tvm(*, force: bool = False) -> Installation:
    """Install the Relay TVM into this interpreter's environment; do nothing twice.

    A TVM with Relay that is already on the path or installed wins and nothing is installed,
    unless ``force`` is set.
    """
    own = usual_spec()
    if own is not None and has_relay(own) and not force:
        return Installation(
            steps=(
                f"found a TVM with Relay at {own.origin}: it wins, nothing to install "
                "(--force installs the wheel beside it)",
            )
        )
    if platform.machine().lower() not in _PLATFORMS or sys.platform != "linux":
        raise HostError(
            f"the TVM wheel {_pinned_wheel()} is for Linux on x86-64, this is {sys.platform} on "
            f"{platform.machine()}; build TVM 0.19 or older from source and put its python folder "
            "on PYTHONPATH"
        )
    steps = []
    if wheel_is_installed():
        steps.append(f"{_pinned_wheel()} is installed")
    else:
        # With its dependencies the wheel would pull in torch.
        _pip("install", "--no-deps", "--require-hashes", "-r", str(_WHEEL))
        steps.append(f"installed {_pinned_wheel()} (its TVM only, without its dependencies)")
    _pip("install", "-r", str(_REQUIREMENTS))
    steps.append("the packages that TVM needs are installed")
    try:
        ffi = compiled_ffi(_package())
    except HostError as error:
        ffi = None
        steps.append(
            f"note: TVM is called through ctypes, and builds take a third longer: {error}; install "
            "a C++ compiler and Python's headers (Debian: apt-get install g++ python3-dev) and "
            "run `tvm-ios install-tvm` again"
        )
    changed = write_hook(site_packages_directory(), ffi)
    steps.append(f"wrote {', '.join(map(str, changed))}" if changed else "the hook is up to date")
    if own is not None and own.loader is not None:
        steps.append(
            f"note: the TVM at {own.origin} has no Relay; `import tvm` now gives the wheel's. "
            "TVM_IOS_TVM=path gives the other one back"
        )
    return Installation(steps=tuple(steps))


def _package() -> Path:
    """Python package of the wheel's TVM."""
    return site_packages_directory() / "bitblas" / "3rdparty" / "tvm" / "python" / "tvm"


def _pinned_wheel() -> str:
    for line in _WHEEL.read_text().splitlines():
        if line and not line.startswith("#"):
            return line.split()[0]
    raise HostError(f"{_WHEEL} names no wheel; reinstall tvm-ios")


def _pip(*arguments: str) -> None:
    """Run pip, which shows its progress where a person looks on."""
    shown = sys.stderr.isatty() and not is_quiet()
    # Without -P a file in the working directory could pass for a module of pip.
    command = [sys.executable, "-P", "-m", "pip", *arguments, "--disable-pip-version-check"]
    if not shown:
        command.append("--quiet")
    _LOG.debug("runs %s", shlex.join(command))
    done = subprocess.run(
        command,
        stdout=sys.stderr if shown else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = lines_that_tell(done.stderr, "pip gave no reason")
        told = " ".join(line for line in lines if not line.startswith("WARNING: "))
        reason = _PLACE.sub("the package index", told)
        raise HostError(
            f"pip failed (exit {done.returncode}): {reason}; run it to see all it says: "
            f"{shlex.join(command)}"
        )
