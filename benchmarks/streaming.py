"""Side by side with the peer: what streaming costs a server, and those who work with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks import peer
from benchmarks.results import Result, aligned, figure, percentile
from benchmarks.server import Server
from support.fake_nvml import GIB, FakeNvml, FakeProcess

HERE = Path(__file__).parent
GPUS = 8
CONNECT_S = 60.0
PROBE_TIMEOUT_S = 60.0
SETTLE_S = 2.0
"""Names and counts, which are read once, have been read by then."""
OURS, PEER, BARE = "jupyter_vram", "nvdashboard", "bare server"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A server under load. `sockets`: those of one client, as its front end opens them."""

    name: str
    python: Path
    extension: str | None
    sockets: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Point:
    """One subject at one load. Latencies in milliseconds."""

    subject: str
    clients: int
    interval_s: float
    cpu_percent: float
    nvml_calls_per_s: float
    latency_p50_ms: float
    latency_p99_ms: float
    latency_max_ms: float
    latency_count: int
    messages_per_client_per_s: float
    bytes_per_client_per_s: float
    bytes_per_message: float | None
    first_bytes_per_client: float
    connected: int
    wanted: int


def subjects(interval_s: float, with_peer: bool) -> Iterator[Subject]:
    """Ours and the peer with clients that wish for that rate."""
    yield Subject(
        name=OURS,
        python=Path(sys.executable),
        extension="jupyter_vram",
        sockets=(
            {
                "path": "jupyter-vram/api/v1/stream?seconds=600&points=400",
                "message": {"type": "configure", "interval_s": interval_s},
            },
        ),
    )
    if with_peer:
        # Its three charts of utilisation, memory and all resources: a WebSocket for each.
        charts = ("gpu_utilization", "gpu_usage", "gpu_resource")
        wish = {"updateFrequency": round(interval_s * 1000), "isPaused": False}
        yield Subject(
            name=PEER,
            python=peer.python(),
            extension="jupyterlab_nvdashboard",
            sockets=tuple({"path": f"nvdashboard/{chart}", "message": wish} for chart in charts),
        )


def measure(folder: Path, *, quick: bool, with_peer: bool) -> Iterator[Point]:
    """All points, the subjects in turn, each with a server of its own."""
    seconds = 3.0 if quick else 6.0
    counts = (1, 10) if quick else (1, 10, 50)
    bare = Subject(name=BARE, python=Path(sys.executable), extension=None)
    ours = next(subjects(1.0, with_peer=False))
    yield _point(folder, ours, 0, 1.0, seconds)
    for interval_s in (1.0, 0.1):
        # Near in time to those it is compared with: a machine is not equally busy all along.
        yield _point(folder, bare, 0, interval_s, seconds)
        for clients in counts:
            for subject in subjects(interval_s, with_peer):
                yield _point(folder, subject, clients, interval_s, seconds)


def _point(
    folder: Path, subject: Subject, clients: int, interval_s: float, seconds: float
) -> Point:
    home = folder / f"{subject.name}-{clients}-{interval_s}".replace(" ", "-")
    with FakeNvml(home / "nvml.state", devices=GPUS, total_bytes=80 * GIB) as gpus:
        for index in range(GPUS):
            gpus.device(index).used_bytes = (5 + index) * GIB
            gpus.set_processes(
                index, [FakeProcess(os.getpid(), 3 * GIB), FakeProcess(os.getppid(), 2 * GIB)]
            )
        server = Server(home, python=subject.python, extension=subject.extension, env=gpus.env())
        with server, _clients(server, subject, clients) as load:
            time.sleep(SETTLE_S)
            cpu_before, calls_before = server.cpu_s(), gpus.calls()
            load.since()
            began = time.monotonic()
            time.sleep(seconds)
            # The clients' process may be late to answer: ours is read first.
            elapsed = time.monotonic() - began
            cpu_s, calls = server.cpu_s() - cpu_before, gpus.calls() - calls_before
            got = load.since()
            latencies = _latencies(server, seconds)
        return _as_point(subject, clients, interval_s, load, got, latencies, elapsed, cpu_s, calls)


def _as_point(
    subject: Subject,
    clients: int,
    interval_s: float,
    load: Load,
    got: dict[str, Any],
    latencies: Sequence[float],
    elapsed: float,
    cpu_s: float,
    calls: int,
) -> Point:
    per_client = max(clients, 1)
    return Point(
        subject=subject.name,
        clients=clients,
        interval_s=interval_s,
        cpu_percent=100 * cpu_s / elapsed,
        nvml_calls_per_s=calls / elapsed,
        latency_p50_ms=1e3 * percentile(latencies, 50),
        latency_p99_ms=1e3 * percentile(latencies, 99),
        latency_max_ms=1e3 * max(latencies),
        latency_count=len(latencies),
        messages_per_client_per_s=got["messages"] / got["seconds"] / per_client,
        bytes_per_client_per_s=got["payload_bytes"] / got["seconds"] / per_client,
        bytes_per_message=got["payload_bytes"] / got["messages"] if got["messages"] else None,
        first_bytes_per_client=load.opened["first_bytes"] / per_client,
        connected=load.opened["connected"],
        wanted=load.opened["wanted"],
    )


class Load:
    """The clients' process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.opened = self._read()
        if self.opened["wanted"] and not self.opened["connected"]:
            raise RuntimeError(f"no client could connect: {self.opened['error']}")

    def since(self) -> dict[str, Any]:
        """What has come since the last call."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the clients' process ended")
        return cast("dict[str, Any]", json.loads(line))


@contextmanager
def _clients(server: Server, subject: Subject, clients: int) -> Iterator[Load]:
    spec = {
        "url": f"ws://127.0.0.1:{server.port}",
        "token": server.token,
        "clients": clients,
        "timeout_s": CONNECT_S,
        "sockets": subject.sockets,
    }
    process = subprocess.Popen(
        [sys.executable, str(HERE / "load.py"), json.dumps(spec)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Load(process)
    finally:
        process.kill()
        process.wait()


def _latencies(server: Server, seconds: float) -> list[float]:
    arguments = (server.port, server.token, seconds, PROBE_TIMEOUT_S)
    done = subprocess.run(
        [sys.executable, str(HERE / "probe.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    return cast("list[float]", json.loads(done.stdout))


def results(points: Sequence[Point]) -> list[Result]:
    """The figures that have goals, of ours; the rest is in the points."""
    ours = {(p.clients, p.interval_s): p for p in points if p.subject == OURS}
    most = max(clients for clients, _ in ours)
    bare = {p.interval_s: p for p in points if p.subject == BARE}
    found = [
        Result(
            part="streaming",
            name=f"API latency p99, {most} clients, {interval_s:g} s",
            value=ours[most, interval_s].latency_p99_ms,
            unit="ms",
            goal=10,
            note=f"of {ours[most, interval_s].latency_count} requests"
            + (
                f"; a bare server's: {bare[interval_s].latency_p99_ms:.1f}"
                if interval_s in bare
                else ""
            ),
        )
        for interval_s in (1.0, 0.1)
    ]
    found += [
        Result(
            part="streaming",
            name=f"NVML calls/s, {most} clients ÷ 1 client, {interval_s:g} s",
            value=ours[most, interval_s].nvml_calls_per_s / ours[1, interval_s].nvml_calls_per_s,
            unit="×",
            # The windows do not begin in step with the slow rates.
            goal=1.1,
        )
        for interval_s in (1.0, 0.1)
    ]
    point = ours[10, 1.0]
    found.append(
        Result(
            part="streaming",
            name="server CPU, 10 clients, 1 s",
            value=point.cpu_percent,
            unit="% of a core",
            goal=1,
            note=f"a bare server takes {bare[1.0].cpu_percent:.2f}" if 1.0 in bare else "",
        )
    )
    return found


def side_by_side(points: Sequence[Point]) -> str:
    """All points, for a terminal."""
    heads = "clients every CPU% NVML/s API_p50_ms p99 max requests msgs/s B/msg kB/s first_kB"
    rows: list[tuple[str, ...]] = [
        ("", *(head.replace("_", " ") for head in heads.split()), "(per client)")
    ]
    rows.extend(
        (
            *(p.subject, str(p.clients), f"{p.interval_s:g} s" if p.clients else "–"),
            *(figure(p.cpu_percent), figure(p.nvml_calls_per_s)),
            *map(figure, (p.latency_p50_ms, p.latency_p99_ms, p.latency_max_ms)),
            *(str(p.latency_count), figure(p.messages_per_client_per_s)),
            *(figure(p.bytes_per_message), figure(p.bytes_per_client_per_s / 1e3)),
            figure(p.first_bytes_per_client / 1e3),
            "" if p.connected == p.wanted else f"{p.connected} of {p.wanted} sockets",
        )
        for p in points
    )
    return aligned(rows)


def as_json(points: Sequence[Point]) -> list[dict[str, Any]]:
    return [
        {
            name: float(f"{value:.5g}") if isinstance(value, float) else value
            for name, value in asdict(point).items()
        }
        for point in points
    ]
