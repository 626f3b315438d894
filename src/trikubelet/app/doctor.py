"""The doctor's checks of this node, run concurrently.

    settings ─► checks, each with a deadline of its own ─► findings, in the order of the checks

They are run by the command ``doctor``, and by the agent when it starts, which only logs warnings and waits for nothing.
Nothing is changed. A check that fails is a finding, and does not end the others.
"""

from __future__ import annotations

import logging
import os
import resource
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.app.endpoint import EMBEDDED, INSIDE
from trikubelet.app.kernel import refuses_swap
from trikubelet.app.runtime_questions import asked, listed_pods, unknown_of
from trikubelet.app.settings import KUBECTL_ADDRESS
from trikubelet.core import compiled, doctor
from trikubelet.core.doctor import Renewal
from trikubelet.core.doctor.machine import MEMORY, PORT, PROCESSES, PROGRAM
from trikubelet.core.doctor.runtime import RUNTIME
from trikubelet.core.x509 import read_certificate
from trikubelet.cri.endpoint import connect_failure, socket_path
from trikubelet.cri.runtime import CriRuntime
from trikubelet.host import examination
from trikubelet.host.cgroups import read_hierarchies
from trikubelet.host.clock import SystemClock
from trikubelet.host.mounts import is_allowed
from trikubelet.host.node import read_node
from trikubelet.host.user_tmpfs import NoTmpfs, UserTmpfs
from trikubelet.kit.plain_file import read_plain
from trikubelet.kit.threads import ThreadPool
from trikubelet.kube.file_content import FILE_BYTES_MAX
from trikubelet.model.certificates import SELF_SIGNED_NAMES
from trikubelet.model.errors import StartFailed
from trikubelet.model.finding import good, warning
from trikubelet.model.runtime_errors import NoCriService, RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from trikubelet.app.settings import Settings
    from trikubelet.core.doctor import Finding
    from trikubelet.model.runtime import NetworkSetup, RuntimeInfo

    Check = Callable[[], Awaitable[Sequence[Finding]]]

log = logging.getLogger(__name__)

T = TypeVar("T")

CHECK_SECONDS_MAX: Final = 10.0
THREADS_MAX: Final = 4


async def examine(settings: Settings, *, running: bool) -> Sequence[Finding]:
    """Check everything these settings use. ``running``: an agent runs with them, and its ports are its own."""
    threads = ThreadPool("doctor", THREADS_MAX)
    checks: list[tuple[str, Check]] = [
        (RUNTIME, partial(_runtime, settings)),
        (PROGRAM, _program),
        ("cgroups", partial(_cgroups, threads, settings)),
        ("swap", partial(_in_thread, threads, partial(_swap, settings))),
        ("sysctls", partial(_in_thread, threads, partial(_sysctls, settings))),
        ("clock", partial(_in_thread, threads, partial(_clock, settings))),
        *((f"disk {place}", partial(_in_thread, threads, partial(_disk, place))) for place in _places(settings)),
        ("certificates", partial(_in_thread, threads, partial(_certificates, settings))),
    ]
    if settings.image_directory is not None:
        from trikubelet.core.doctor.images import IMAGES  # noqa: PLC0415 - few agents have an image directory

        checks.append((IMAGES, partial(_image_directory, threads, settings, settings.image_directory)))
    if not settings.runtime.inside:
        checks.append(("pods", partial(_unknown_pods, threads, settings)))
    if settings.runtime.endpoint == EMBEDDED:
        checks.append((PROCESSES, partial(_in_thread, threads, _processes)))
        if not is_allowed():
            checks.append((MEMORY, partial(_in_thread, threads, partial(_memory, settings))))
    if not running:
        checks.append((PORT, partial(_in_thread, threads, partial(_ports, settings))))
    if not settings.standalone:
        checks.append(("API server", partial(_api_server, threads, settings)))
    found: list[Sequence[Finding]] = [()] * len(checks)

    async def look(number: int, name: str, check: Check) -> None:
        found[number] = [
            warning(
                name, f"the check did not end within {CHECK_SECONDS_MAX:g} s", "check for a disk or service that hangs"
            )
        ]
        with trio.move_on_after(CHECK_SECONDS_MAX):
            try:
                found[number] = await check()
            except (OSError, StartFailed, ValueError) as error:
                found[number] = [warning(name, f"the check failed: {error}", "see the error")]

    async with trio.open_nursery() as nursery:
        for number, (name, check) in enumerate(checks):
            nursery.start_soon(look, number, name, check)
    return [finding for part in found for finding in part]


async def warn(settings: Settings) -> None:
    """Run the checks, and log the problems. For an agent that starts: nothing waits for it or depends on it, not even
    if a check has a bug."""
    try:
        findings = await examine(settings, running=True)
    except Exception:
        log.exception("The doctor could not check this node")
        return
    for finding in findings:
        if finding.severity is not doctor.Severity.GOOD:
            log.warning("Doctor: %s: %s (%s)", finding.check, finding.found, finding.remedy)


async def _in_thread(threads: ThreadPool, look: Callable[[], Iterator[Finding]]) -> Sequence[Finding]:
    return await threads.run(lambda: list(look()))


# ---- the checks ----


async def _runtime(settings: Settings) -> Sequence[Finding]:
    endpoint = settings.runtime.endpoint
    if endpoint in INSIDE:
        return [good(RUNTIME, f"{endpoint}, inside the agent")]
    try:
        info, setup = await asked(endpoint, _info_and_network)
    except OSError as error:
        return list(doctor.judge_runtime(endpoint, None, connect_failure(socket_path(endpoint), error)))
    except NoCriService as error:
        return list(doctor.judge_runtime(endpoint, None, error.found, error.remedy))
    except RuntimeCallError as error:
        return list(doctor.judge_runtime(endpoint, None, str(error)))
    network = doctor.judge_network(info, examination.read_network(setup))
    return [*doctor.judge_runtime(endpoint, info), *network]


async def _info_and_network(runtime: CriRuntime) -> tuple[RuntimeInfo, NetworkSetup | None]:
    info = await runtime.info()
    return info, await runtime.network_setup()


async def _unknown_pods(threads: ThreadPool, settings: Settings) -> Sequence[Finding]:
    try:
        listed = await asked(settings.runtime.endpoint, listed_pods)
    except (OSError, RuntimeCallError):  # the runtime's check reports it
        return ()

    def look() -> Iterator[Finding]:
        return doctor.judge_unknown_pods(unknown_of(listed, settings.root_dir))

    return await _in_thread(threads, look)


async def _image_directory(threads: ThreadPool, settings: Settings, directory: Path) -> Sequence[Finding]:
    from trikubelet.core.doctor.images import judge_image_directory  # noqa: PLC0415
    from trikubelet.core.image_archives import PROGRAMS  # noqa: PLC0415
    from trikubelet.host.image_directory import scan  # noqa: PLC0415

    runtime = ""
    with suppress(OSError, RuntimeCallError):  # which the runtime's check reports
        runtime = (await asked(settings.runtime.endpoint, CriRuntime.info)).name

    def look() -> Iterator[Finding]:
        programs = {name for name, _ in PROGRAMS.values() if shutil.which(name)}
        status = directory.stat()
        others_write = status.st_uid not in (0, os.geteuid()) or bool(status.st_mode & 0o022)
        archives = scan(directory, {})
        return judge_image_directory(str(directory), archives, runtime, programs, others_write=others_write)

    return await _in_thread(threads, look)


async def _program() -> Sequence[Finding]:
    return [doctor.judge_backend(compiled.BACKEND, compiled.PROBLEM)]


async def _cgroups(threads: ThreadPool, settings: Settings) -> Sequence[Finding]:
    driver = await _driver(settings)

    def look() -> Iterator[Finding]:
        trees = read_hierarchies()
        return doctor.judge_cgroups(trees.version, trees.of, driver, by_systemd=examination.is_by_systemd())

    return await _in_thread(threads, look)


async def _driver(settings: Settings) -> str:
    """Return the cgroup driver that an agent would use: the runtime's before the configured one."""
    reported = ""
    if settings.runtime.endpoint not in INSIDE:
        with suppress(OSError, RuntimeCallError):  # the runtime's check reports it
            reported = await asked(settings.runtime.endpoint, CriRuntime.cgroup_driver)
    return reported or settings.configuration.cgroup_driver


def _processes() -> Iterator[Finding]:
    from trikubelet.embedded.processes import PROCESSES_PER_CONTAINER_MAX, why_unlimited  # noqa: PLC0415
    from trikubelet.embedded.spec import PROCESSES_MAX  # noqa: PLC0415 - only one agent in many is on that runtime

    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    of_user = PROCESSES_MAX if hard == resource.RLIM_INFINITY else min(PROCESSES_MAX, hard)
    yield doctor.judge_processes(
        why_unlimited(),
        per_container=PROCESSES_PER_CONTAINER_MAX,
        per_user=of_user if os.geteuid() else 0,  # the kernel does not count root's
    )


def _memory(settings: Settings) -> Iterator[Finding]:
    """Yield the findings about volumes in memory for an agent that may not mount."""
    try:
        tmpfs = UserTmpfs(settings.root_dir.resolve(), os.environ).tmpfs()
    except NoTmpfs as error:
        yield doctor.judge_memory("", error.problem, error.remedy)
    else:
        yield doctor.judge_memory(str(tmpfs), "", "")


def _swap(settings: Settings) -> Iterator[Finding]:
    behaviour = settings.configuration.memory_swap.swap_behavior
    return doctor.judge_swap(read_node().swap_bytes, refused=refuses_swap(settings), behaviour=behaviour)


def _sysctls(settings: Settings) -> Iterator[Finding]:
    names = doctor.SYSCTLS_INSIDE if settings.runtime.inside else doctor.SYSCTLS
    return doctor.judge_sysctls(examination.read_sysctls(names))


def _clock(settings: Settings) -> Iterator[Finding]:
    newest = examination.newest_change_ns((settings.root_dir, Path(__file__)))
    synchronised = examination.is_synchronised()
    now_ns = SystemClock().now_ns()
    return doctor.judge_clock(now_ns, newest, synchronised=synchronised, in_cluster=not settings.standalone)


def _places(settings: Settings) -> Sequence[Path]:
    """Return the directories that the node fills, each path once."""
    return list(dict.fromkeys((settings.root_dir, settings.pod_logs_dir)))


def _disk(place: Path) -> Iterator[Finding]:
    return doctor.judge_disk(examination.read_disk(place))


def _ports(settings: Settings) -> Iterator[Finding]:
    rules = settings.configuration
    wanted = (
        (rules.healthz_bind_address, rules.healthz_port, "healthzPort"),
        (rules.address, settings.api_port, "port"),
        (rules.address, rules.read_only_port, "readOnlyPort"),
        (KUBECTL_ADDRESS, settings.kubectl_port, "--kubectl-port"),
    )
    for address, port, field in wanted:
        if port > 0:
            yield from doctor.judge_port(port, field, taken=examination.is_taken(address, port))


def _certificates(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for every certificate in the configuration, and for those of the agent's own that are in use."""
    rules = settings.configuration
    asked_for = (("kubelet-client", rules.rotate_certificates), ("kubelet-server", rules.server_tls_bootstrap))
    wanted = [
        (settings.cert_dir / f"{name}-current.pem", Renewal.ASKED_FOR if rotates else Renewal.BY_HAND)
        for name, rotates in asked_for
    ]
    if settings.api_port > 0 and not (rules.server_tls_bootstrap or rules.tls_cert_file):
        wanted.append((settings.cert_dir / SELF_SIGNED_NAMES[0], Renewal.AT_START))
    if settings.kubectl_port > 0:
        wanted.append((settings.kubectl_dir / SELF_SIGNED_NAMES[0], Renewal.AT_START))
    given = [Path(path) for path in (rules.tls_cert_file, rules.authentication.x509.client_ca_file) if path]
    now = SystemClock().now_ns()
    for path, renewal in (*wanted, *((path, Renewal.BY_HAND) for path in given)):
        try:
            held = read_certificate(read_plain(path, FILE_BYTES_MAX))
        except FileNotFoundError:
            if path in given:
                yield warning("certificates", f"{path} does not exist", "put it there, or remove it from the file")
        except (OSError, ValueError) as error:
            yield warning("certificates", f"{path} cannot be read: {error}", "put a certificate in PEM there")
        else:
            yield from doctor.judge_certificate(str(path), held, now, renewal)


async def _api_server(threads: ThreadPool, settings: Settings) -> Sequence[Finding]:
    from trikubelet.app.cluster_doctor import examine_cluster  # noqa: PLC0415 - only a member needs an HTTP client

    return await examine_cluster(settings, threads)
