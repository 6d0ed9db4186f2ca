"""Networks that a contestant runs together: in turn, on a thread each, or all at once."""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

from tvm_ios_lab.peers.network import Floats

__all__ = ["AtOnce", "InTurn", "OnThreads", "Runner", "Together"]


class Runner(Protocol):
    """A network loaded by a peer, its input in place."""

    def run(self) -> None:
        """Run the network once; the output is there when this returns."""
        ...

    def output(self) -> Floats:
        """Output of the last run."""
        ...


class Together(Protocol):
    """Networks loaded by a peer, as it runs them."""

    def __init__(self, runners: Sequence[Any]) -> None: ...

    def run(self) -> None:
        """Run each network once; all outputs are there when this returns."""
        ...

    def outputs(self) -> list[Floats]:
        """Outputs of the last run, in the order of the networks."""
        ...


class InTurn:
    """Networks that run one after another."""

    def __init__(self, runners: Sequence[Runner]) -> None:
        self._runners = runners

    def run(self) -> None:
        """Run each network once."""
        for runner in self._runners:
            runner.run()

    def outputs(self) -> list[Floats]:
        """Outputs of the last run."""
        return [runner.output() for runner in self._runners]


class OnThreads(InTurn):
    """Networks with a thread each; the caller's is that of the first."""

    def __init__(self, runners: Sequence[Runner]) -> None:
        super().__init__(runners)
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._begin = [self._thread(runner) for runner in runners[1:]]

    def run(self) -> None:
        """Run all networks at once."""
        for begin in self._begin:
            begin.put(None)
        self._runners[0].run()
        for _ in self._begin:
            if (error := self._done.get()) is not None:
                raise error

    def _thread(self, runner: Runner) -> SimpleQueue[None]:
        begin: SimpleQueue[None] = SimpleQueue()

        def serve() -> None:
            while True:
                begin.get()
                try:
                    runner.run()
                except BaseException as error:  # noqa: BLE001 - the caller raises it
                    self._done.put(error)
                else:
                    self._done.put(None)

        Thread(target=serve, daemon=True).start()
        return begin


class Request(Runner, Protocol):
    """Network whose runs can be begun without waiting for their end."""

    def start(self) -> None:
        """Begin a run."""
        ...

    def wait(self) -> None:
        """Wait for the end of the run."""
        ...


class AtOnce(InTurn):
    """Networks whose runs are all begun before the end of the first is waited for."""

    def __init__(self, runners: Sequence[Request]) -> None:
        super().__init__(runners)
        self._requests = runners

    def run(self) -> None:
        """Run all networks at once."""
        for request in self._requests:
            request.start()
        for request in self._requests:
            request.wait()
