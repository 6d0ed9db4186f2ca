"""What every test needs: all cores for TVM, a compile cache, child interpreters, and its turn.

And, for those that measure on a device: a real RPC tracker with real servers on loopback, processes
of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate, chain, groupby, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.rpc_processes import HOST, server_process, tracker_process
from tvm_ios.errors import DeviceLostError
from tvm_ios.host.processor import default_lanes
from tvm_ios.measure.machine_mode import ModeWatch
from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph
from tvm_ios.plan.merge_effects import View
from tvm_ios.plan.placement import ConcatView, Placement, SliceView
from tvm_ios.support.stage_gate import GrantedStage, JobProgress, StageNeed

# What is imported while tests are collected stays, so nobody looks through it for garbage. Later
# the collector looks seldom: most of what it would look at are graphs that a test holds on to.
gc.disable()
# All are read when TVM or the compile cache is first used, so they are set before any test module
# is imported. A user's cache and profile database must not decide what a test sees. Workers of
# pytest-xdist share the cache of the session that started them.
os.environ.setdefault("TVM_NUM_THREADS", str(default_lanes()))
# TVM's threads spin for a tenth of a second after each kernel, each constant that is folded too.
# The other workers have better use for the core.
os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", "0")
WORKER = "PYTEST_XDIST_WORKER" in os.environ
if not WORKER:
    os.environ["TVM_IOS_CACHE_DIR"] = tempfile.mkdtemp(prefix="tvm-ios-tests-")
_CACHE = os.environ["TVM_IOS_CACHE_DIR"]
# Nor what an earlier test has tuned: those that are about kept results take this out.
os.environ["TVM_IOS_KEPT_MIB"] = "0"
_QUIET = Path(_CACHE) / "quiet"

# A shared machine makes deadlines of examples meaningless. Examples are the same in each run, so
# that none fails by luck; new ones: pytest --hypothesis-profile=search [--hypothesis-seed=1].
settings.register_profile("tvm-ios", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, derandomize=False, max_examples=5000)
settings.load_profile("tvm-ios")
# Nor by the numbers in our source: Hypothesis tries those of all modules imported so far, so that
# examples change with any edit and with the tests that run beside.
providers._get_local_constants = providers.Constants  # type: ignore[assignment]

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]
StartServer = Callable[..., "contextlib.AbstractContextManager[RpcDevice]"]
ReferenceBuild = Callable[..., Any]
START_S = 60
SLOW_S = 4
"""What a slow test is taken to last where its mark does not say."""
TURN_S = int(os.environ.get("TVM_IOS_TEST_TURN_S", "300"))
"""How long a test waits for its turn."""


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the session's cache."""
    if not WORKER:
        shutil.rmtree(_CACHE, ignore_errors=True)


# ---- Whose turn it is ----


@pytest.hookimpl(tryfirst=True)  # before marks choose
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take longest come first, and tests that need quiet cores last.

    The cases between the first and the last one of a test are slow, as one more of many.
    """
    for _, cases in groupby(items, lambda item: item.nodeid.partition("[")[0]):
        for item in list(cases)[1:-1]:
            if item.get_closest_marker("slow") is None:
                item.add_marker(pytest.mark.slow(0))
    seconds: Counter[Path] = Counter()
    for item in items:
        slow = item.get_closest_marker("slow")
        if slow is not None:
            seconds[item.path] += slow.args[0] if slow.args else SLOW_S
    # The scheduler, in another process, knows tests by their ids only.
    quiet = [item.nodeid for item in items if item.get_closest_marker("quiet")]
    written = Path(_CACHE) / f"quiet.{os.getpid()}"
    written.write_text("\n".join(quiet))
    written.replace(_QUIET)
    items.sort(key=lambda item: (item.get_closest_marker("quiet") is not None, -seconds[item.path]))


def pytest_collection_finish() -> None:
    """What was imported is no garbage: nobody has to look through TVM's modules again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


class _Scheduling(LoadScopeScheduling):
    """A file's tests share a worker, and with it fixtures; quiet ones share one across files."""

    def _split_scope(self, nodeid: str) -> str:
        return "quiet" if nodeid in _quiet_tests() else nodeid.partition("::")[0]

    def remove_node(self, node: WorkerController) -> str | None:
        """Take a worker out; the test that it died in has failed, and is not begun again."""
        units = self.assigned_work[node].values()
        crashed = next((test for unit in units for test, done in unit.items() if not done), None)
        for unit in units:
            if crashed in unit:
                unit[crashed] = True
        super().remove_node(node)
        return crashed

    def schedule(self) -> None:
        """Give out tests; to one who takes a dead worker's place twice.

        A worker begins a test when it knows the next one, or that there is none.
        """
        in_place = self.collection is not None
        super().schedule()
        if in_place:
            super().schedule()


@cache
def _quiet_tests() -> frozenset[str]:
    """What the workers found as they collected."""
    return frozenset(_QUIET.read_text().splitlines())


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Scheduling:
    """What ``pytest -n`` gives to whom."""
    return _Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let tests run side by side, but no other one beside a test that needs quiet cores.

    Quiet ones come last, so they wait for what the other workers have begun, and for no more; and
    not for ever, since children of a worker that was killed keep its turn.
    """
    if not WORKER:
        return (yield)
    quiet = item.get_closest_marker("quiet")
    with (Path(_CACHE) / "turn").open("a") as turn:
        with contextlib.suppress(TimeoutError), _alarm(TURN_S):
            fcntl.flock(turn, fcntl.LOCK_EX if quiet else fcntl.LOCK_SH)
        return (yield)


@contextlib.contextmanager
def _alarm(seconds: int) -> Iterator[None]:
    """A TimeoutError in the midst of a call that waits too long."""

    def over(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session", autouse=True)
def _impatient() -> Iterator[None]:
    """Nobody waits for a quiet machine, or asks for one, while other tests keep it busy.

    Fakes wait in no time.
    """
    begin = ModeWatch.__init__

    def impatient(watch: ModeWatch, *arguments: Any, **options: Any) -> None:
        begin(watch, *arguments, **options)
        if watch._sleep_s is time.sleep:
            watch._options = replace(watch._options, patience_s=0.0)
            watch._waited_ns = lambda: None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModeWatch, "__init__", impatient)
        yield


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """Ctrl-C as a terminal's process has it; where tests run in the background, it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The folder that holds ``tvm_ios`` and ``pyproject.toml``."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Run an interpreter with arguments and extra environment in an empty folder.

    Variables that choose a TVM or its libraries are taken out first; ``python`` is another
    interpreter than the one that runs the tests.
    """
    folder = tmp_path / "cwd"
    folder.mkdir()
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TVM_", "TOPHUB", "PYTHON", "LD_LIBRARY_PATH"))
    }
    clean["TVM_IOS_CACHE_DIR"] = _CACHE
    clean["TVM_IOS_KEPT_MIB"] = os.environ["TVM_IOS_KEPT_MIB"]
    clean["TVM_THREAD_POOL_SPIN_COUNT"] = os.environ["TVM_THREAD_POOL_SPIN_COUNT"]

    def run(
        *arguments: str, python: str = sys.executable, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=folder,
            env=clean | environment,
        )

    return run


@pytest.fixture
def kept_at_once(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are kept, in a cache of the test's own; nobody waits for a quiet machine."""
    monkeypatch.delenv("TVM_IOS_KEPT_MIB")
    monkeypatch.setattr("tvm_ios.driver.later.begun_call.QUIET_S", 0.0)


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of who has tuned nothing yet: no log, no price, no run, no job.

    Code that was compiled before is there, by links: it is found by all that it depends on.
    """
    cache = tmp_path / "cache"
    cache.mkdir()
    for name in ("native", "kernels"):
        compiled = Path(_CACHE) / name
        compiled.mkdir(exist_ok=True)
        (cache / name).symlink_to(compiled)
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(cache))
    return cache


@pytest.fixture(scope="session")
def branching() -> tuple[Any, dict[str, Any]]:
    """A small Relay network and its parameters; TVM compiles it in a second.

    Two levels of branches, of which the first has convolutions that may merge.
    """
    from tvm import relay

    data = relay.var("data", shape=(1, 16, 8, 8))
    first = [
        _convolution(data, "left", 16, 1, 16),
        _convolution(data, "middle", 16, 3, 16),
        _convolution(data, "right", 16, 1, 16),
        relay.nn.max_pool2d(data, (3, 3), padding=(1, 1)),
    ]
    joined = relay.concatenate(first, axis=1)
    second = [_convolution(joined, "deep", 8, 3, 64), _convolution(joined, "wide", 16, 1, 64)]
    pooled = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.concatenate(second, axis=1)))
    return _network(relay.nn.dense(pooled, relay.var("dense", shape=(10, 24))))


@pytest.fixture(scope="session")
def fork() -> tuple[Any, dict[str, Any]]:
    """The smallest network with something to schedule: two convolutions of one input, joined.

    AutoTVM starts a tracker and a server for each task, which takes longer than its tuning.
    """
    from tvm import relay

    data = relay.var("data", shape=(1, 16, 8, 8))
    ways = [_convolution(data, "left", 16, 1, 16), _convolution(data, "right", 16, 3, 16)]
    joined = relay.concatenate(ways, axis=1)
    return _network(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(joined)))


@pytest.fixture(scope="session")
def masked() -> tuple[Any, dict[str, Any]]:
    """Two convolutions of ``data``, picked by truth values ``mask``; some outputs are such, too."""
    from tvm import relay

    data = relay.var("data", shape=(1, 16, 8, 8))
    mask = relay.var("mask", shape=(1, 16, 8, 8), dtype="bool")
    ways = [_convolution(data, "left", 16, 1, 16), _convolution(data, "right", 16, 3, 16)]
    picked = relay.where(mask, *ways)
    large = relay.logical_and(relay.greater(picked, relay.const(0.1)), relay.logical_not(mask))
    return _network(relay.Tuple([picked, large, mask]), inputs=("data", "mask"))


def _convolution(data: Any, name: str, channels: int, kernel: int, inputs: int) -> Any:
    from tvm import relay

    value = relay.nn.conv2d(
        data,
        relay.var(name, shape=(channels, inputs, kernel, kernel)),
        padding=(kernel // 2, kernel // 2),
        channels=channels,
        kernel_size=(kernel, kernel),
    )
    return relay.nn.relu(value)


def _network(output: Any, inputs: Sequence[str] = ("data",)) -> tuple[Any, dict[str, Any]]:
    """A module of an expression of these inputs, and random values for all else."""
    import numpy as np
    import tvm
    from tvm import relay

    mod = relay.transform.InferType()(tvm.IRModule.from_expr(output))
    random = np.random.default_rng(1)
    params = {}
    for var in mod["main"].params:
        if var.name_hint in inputs:
            continue
        shape = [int(extent) for extent in var.checked_type.shape]
        params[var.name_hint] = tvm.nd.array(random.uniform(-0.5, 0.5, shape).astype("float32"))
    return mod, params


@pytest.fixture(scope="session")
def reference_build() -> ReferenceBuild:
    """``relay.build`` of TVM, for tests that only want to know what TVM answers.

    It folds no constants and simplifies nothing: weights are laid out at run time, by the same
    kernels and with the same bits (``test_reference.py``). TVM folds by compiling and running a
    program for each constant, and simplifies by inferring types some 25 times; together that is
    most of a build.
    """
    import tvm
    from tvm import relay

    from tvm_ios.host import cached_libinfo
    from tvm_ios.relay.transforms.layout_text import without_layout_text

    idle = ["FoldConstant", "SimplifyExpr", "SimplifyExprPostAlterOp"]

    def build(module: Any, params: Any, target: str, opt_level: int = 3) -> Any:
        with (
            cached_libinfo(),
            without_layout_text(),
            tvm.transform.PassContext(opt_level=opt_level, disabled_pass=idle),
        ):
            return relay.build(module, target=target, params=params)

    return build


@pytest.fixture(scope="session")
def cuda_stand_in_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Libraries to preload that stand in for CUDA, under the names and versions TVM asks for."""
    from tvm_ios.runtime.base.tvm_names import IS_FFI
    from tvm_ios.support.c_compiler import compile_shared

    folder = tmp_path_factory.mktemp("stand-in")
    runtime = f"libcudart.so.{13 if IS_FFI else 12}"
    versions, nothing, of_nothing = (folder / name for name in ("v.map", "nothing.c", "n.map"))
    versions.write_text(
        f"{runtime} {{ global: cuda*; }};\ndriver {{ global: cu[A-Z]*; stand_in_*; local: *; }};\n"
    )
    nothing.write_text("/* The name and version of CUDA's runtime; the stand-in has the rest. */\n")
    of_nothing.write_text(f"{runtime} {{ }};\n")
    flags = ("-Wl,-soname,libcuda.so.1", f"-Wl,--version-script={versions}")
    source = Path(__file__).parent / "runtime" / "native" / "cuda_stand_in.c"
    named = (f"-Wl,-soname,{runtime}", f"-Wl,--version-script={of_nothing}")
    return f"{compile_shared(source, flags)}:{compile_shared(nothing, named)}"


@pytest.fixture
def planted_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, with modules in it that no process of ours may run."""
    folder, ran = tmp_path / "planted", tmp_path / "ran.txt"
    folder.mkdir()
    for name in ("cloudpickle", "contextlib", "numpy", "pip", "socket"):
        code = f"open({str(ran)!r}, 'a').write(__name__)\nraise SystemExit(9)\n"
        (folder / f"{name}.py").write_text(code)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    yield folder
    assert not ran.exists(), ran.read_text()


@dataclass(frozen=True)
class RpcDevice:
    """Where a tracker listens, and the key of a device of it."""

    host: str
    port: int
    key: str
    server: int | None = None
    """The id of the server's process, and of the group of all that it starts."""

    @property
    def address(self) -> str:
        """As users give it."""
        return f"{self.host}:{self.port}"

    def kill(self) -> None:
        """End the server and all that it started, as a power cut does."""
        assert self.server is not None
        os.killpg(self.server, signal.SIGKILL)

    def becomes_free(self) -> bool:
        """Whether the tracker soon has the device for the next client."""
        from tvm import rpc

        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            tracker = rpc.connect_tracker(self.host, self.port)
            queue = tracker.summary()["queue_info"].get(self.key, {})
            tracker.close()
            if queue.get("free") == 1:
                return True
            time.sleep(0.1)
        return False


@pytest.fixture(scope="session")
def bare_tracker() -> Iterator[RpcDevice]:
    """A tracker without a device."""
    port = _free_port()
    with tracker_process(port):
        tracker = RpcDevice(HOST, port, "nobody")
        _wait_for(tracker, "has no device")
        yield tracker


@pytest.fixture(scope="session")
def start_rpc_server(bare_tracker: RpcDevice) -> StartServer:
    """Register a server of its own with the tracker, under a key; it is gone at the end."""

    @contextlib.contextmanager
    def start(key: str, **variables: str) -> Iterator[RpcDevice]:
        with server_process(_free_port(), bare_tracker.port, key, **variables) as process:
            device = RpcDevice(bare_tracker.host, bare_tracker.port, key, process)
            _wait_for(device, None)
            yield device

    return start


@pytest.fixture(scope="session")
def loopback_tracker(start_rpc_server: StartServer) -> Iterator[RpcDevice]:
    """The tracker with a device that all tests share."""
    with start_rpc_server("loopback") as device:
        yield device


def _free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        return int(taken.getsockname()[1])


def _wait_for(tracker: RpcDevice, refusal: str | None) -> None:
    """Until the tracker has the device, or refuses with these words."""
    from tvm_ios.errors import TuningError
    from tvm_ios.tuning.remote import require_tracker

    deadline = time.monotonic() + START_S
    while True:
        try:
            require_tracker(tracker.address, tracker.key)
            return
        except TuningError as error:
            if refusal is not None and refusal in str(error):
                return
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


# ---- Graphs of kernels, to be planned ----


def _random_placements(
    graph: KernelGraph, chooser: random.Random, views: Sequence[View] | None = None
) -> list[Placement]:
    """Any valid partition: each operator joins its predecessors' group, or a later stage."""
    placements: list[Placement] = []
    widths: dict[int, int] = {}
    writer: dict[int, int] = {}
    for index, operator in enumerate(graph.operators):
        reads = sorted({writer[tensor] for tensor in operator.inputs if tensor in writer})
        writer.update(dict.fromkeys(operator.outputs, index))
        before = [placements[reader] for reader in reads]
        last = max((placement.stage for placement in before), default=-1)
        groups = {placement.group for placement in before if placement.stage == last}
        if len(groups) == 1 and chooser.random() < 0.4:
            placements.append(Placement(stage=last, group=groups.pop()))
            continue
        stage = last + chooser.choice((1, 1, 1, 2, 4))
        width = widths.setdefault(stage, 0)
        group = chooser.randrange(width + 1) if chooser.random() < 0.3 else width
        widths[stage] = max(width, group + 1)
        placements.append(Placement(stage=stage, group=group))
    if views is None:
        return placements
    return [replace(place, view=view) for place, view in zip(placements, views, strict=True)]


def _random_graph(chooser: random.Random) -> tuple[KernelGraph, list[Placement]]:
    sizes: list[int] = []  # of each tensor, in float32
    inputs: list[int] = []
    operators: list[GraphOperator] = []
    views: list[View] = []

    def tensors(lengths: list[int]) -> tuple[int, ...]:
        sizes.extend(lengths)
        return tuple(range(len(sizes) - len(lengths), len(sizes)))

    def add(kernel: str | None, reads: list[int], lengths: list[int], view: View = None) -> None:
        operators.append(
            GraphOperator(
                name=f"n{len(inputs) + len(operators)}",
                kernel=kernel,
                inputs=tuple(reads),
                outputs=tensors(lengths),
                flatten=chooser.random() < 1 / 6,
            )
        )
        views.append(view)

    for _ in range(chooser.randrange(1, 3)):
        inputs.extend(tensors([16 * chooser.randrange(1, 9)]))
    for number in range(chooser.randrange(1, 24)):
        kind = chooser.random()
        recent = range(max(0, len(sizes) - 8), len(sizes))
        reads = chooser.sample(recent, min(len(recent), chooser.randrange(1, 4)))
        size = sizes[reads[0]]
        if kind < 0.12:
            add(None, reads[:1], [size])
        elif kind < 0.3 and size >= 32:
            begin = chooser.randrange(0, size // 2, chooser.choice((8, 16)))
            add(f"slice{number}", reads[:1], [size // 2], SliceView(4 * begin))
        elif kind < 0.5:
            parts = [sizes[tensor] for tensor in reads]
            begins = accumulate(parts[:-1], initial=0)
            view = ConcatView(tuple(4 * begin for begin in begins))
            add(f"concat{number}", reads, [sum(parts)], view)
        else:
            count = chooser.choice((1, 1, 1, 2))
            add(f"kernel{number}", reads, [chooser.randrange(1, 200) for _ in range(count)])
    outputs = {len(sizes) - 1, *chooser.sample(range(len(sizes)), chooser.randrange(3) % 2)}
    graph = KernelGraph(
        tensors=tuple(GraphTensor((1, size), "float32") for size in sizes),
        operators=tuple(operators),
        inputs=tuple((f"n{number}", tensor) for number, tensor in enumerate(inputs)),
        outputs=tuple(sorted(outputs)),
    )
    return graph, _random_placements(graph, chooser, views)


@pytest.fixture(scope="session")
def placements_of() -> Callable[..., list[Placement]]:
    """A random valid placement of the operators of a graph of kernels."""
    return _random_placements


@pytest.fixture(scope="session")
def random_graph() -> Callable[[random.Random], tuple[KernelGraph, list[Placement]]]:
    """Random graphs with reshapes, slices, concatenations, several outputs and heads."""
    return _random_graph


# ---- Stages of tuning jobs ----


@dataclass
class RecordingGate:
    """A gate that writes down what passes it, in order, and lets one stage in at a time."""

    grants: Iterator[GrantedStage] = field(
        default_factory=lambda: repeat(GrantedStage(cores=(min(os.sched_getaffinity(0)),)))
    )
    """What stages of profiling get; all others get every core."""
    most_cores: int = 2
    second_try: bool = False
    """Whether what does not measure may try again."""
    needs: list[StageNeed] = field(default_factory=list)
    """Of the stages that began."""
    events: list[str] = field(default_factory=list)
    """``begin KIND``, ``tell TRIALS``, ``lost`` and ``end KIND``."""
    is_open: bool = False
    waits_s: float = 0.0
    """What each stage pretends to have waited for others."""
    waited_s: float = 0.0

    @property
    def kinds(self) -> list[str]:
        """Kinds of the stages that began."""
        return [need.kind.value for need in self.needs]

    @contextlib.contextmanager
    def stage(self, need: StageNeed) -> Iterator[GrantedStage]:
        assert not self.is_open, f"{need} begins within {self.needs[-1]}"
        self.is_open = True
        self.waited_s += self.waits_s
        self.needs.append(need)
        self.events.append(f"begin {need.kind.value}")
        cores = tuple(sorted(os.sched_getaffinity(0)))
        try:
            open_grant = GrantedStage(cores=cores, second_try=self.second_try)
            yield next(self.grants) if need.kind.measures else open_grant
        except DeviceLostError:
            self.events.append("lost")
            raise
        finally:
            self.is_open = False
            self.events.append(f"end {need.kind.value}")

    def tell(self, progress: JobProgress) -> None:
        self.events.append(f"tell {progress.trials} of {progress.total}")


@pytest.fixture
def busy_gate(monkeypatch) -> RecordingGate:
    """A gate at which each stage waits for a day of the clock, and for no time of ours."""
    gate, clock = RecordingGate(waits_s=86_400.0), time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + gate.waited_s)
    return gate


@pytest.fixture
def recording_gate() -> type[RecordingGate]:
    """Makes gates that write down what passes them."""
    return RecordingGate


@pytest.fixture
def grants_of() -> Callable[[Sequence[RpcDevice], int], Iterator[GrantedStage]]:
    """Grants devices one after the other; so many of the first are lost as they are granted."""

    def grants(devices: Sequence[RpcDevice], losing: int) -> Iterator[GrantedStage]:
        for place, device in enumerate(chain(devices, repeat(devices[-1]))):
            if place < losing:
                device.kill()
            address = f"{device.address}:{device.key}"
            yield GrantedStage(cores=(0,), device=device.key, address=address)

    return grants
