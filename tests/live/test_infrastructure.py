"""That the ground under the live tests is firm: both containerds run pods, side by side, and leave nothing behind.

Nothing of the agent is involved. When a live test of the agent fails, run these first: if they fail too, the machine
or the kit is at fault.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import trio
import yaml
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from live.kit import frozen, images, instance, marked, network, places
from live.kit.containerd import Containerd, distribution, newer
from live.kit.daemon import await_that
from live.kit.events import parse
from live.kit.pods import Pod
from live.kit.registry import Registry
from trikubelet.cri.v1 import api_pb2 as api

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from live.kit import configuration

pytestmark = pytest.mark.slow


def test_the_versions_the_script_builds_are_the_versions_the_kit_looks_for() -> None:
    script = places.INSTALL.read_text()
    assert [places.CONTAINERD_VERSION] == re.findall(r"^CONTAINERD_VERSION=(\S+)", script, re.MULTILINE)
    assert [places.RUNC_VERSION] == re.findall(r"^RUNC_VERSION=(\S+)", script, re.MULTILINE)
    assert [places.CRIO_VERSION] == re.findall(r"^CRIO_VERSION=(\S+)", script, re.MULTILINE)


def test_without_root_the_install_script_says_what_it_needs_in_one_line() -> None:
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-s"]
    done = subprocess.run(as_nobody, input=places.INSTALL.read_text(), capture_output=True, text=True, check=False)
    assert 1 == done.returncode
    assert 1 == len(done.stderr.splitlines())
    assert "needs root" in done.stderr


def test_of_a_process_said_to_stand_still_no_thread_runs_on() -> None:
    busy = (
        "import hashlib, threading\n"
        "def work():\n"
        "    while True: hashlib.sha256(bytes(1 << 20))\n"
        "for _ in range(16): threading.Thread(target=work, daemon=True).start()\n"
        "print('busy', flush=True)\n"
        "work()\n"
    )
    with subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "busy\n" == process.stdout.readline()
            for _ in range(20):  # a SIGSTOP that was only sent leaves some of these running every time
                frozen.freeze(process.pid)
                assert {"T"} == set(frozen.threads(process.pid).values())
                frozen.thaw(process.pid)
                await_that(lambda: "R" in frozen.threads(process.pid).values(), 60, lambda: "nothing goes on")
        finally:
            process.kill()


def test_the_same_images_give_the_same_bytes(tmp_path: Path) -> None:
    image = images.Image(("a.test/b:1",), {"bin/a": b"a", "bin/b": "a"}, entrypoint=("/bin/a",))
    images.write_layout(tmp_path / "one", [image])
    images.write_layout(tmp_path / "two", [image])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_every_name_the_examples_ask_for_is_among_the_images() -> None:
    manifests = (places.LIVE.parent.parent / "examples" / "manifests" / "containerd").glob("*.yaml")
    asked = {name for path in manifests for name in re.findall(r"^\s*(?:- )?image: *(\S+)", path.read_text(), re.M)}
    assert asked
    assert set() == {f"docker.io/library/{name}" for name in asked} - set(images.names())


def test_the_examples_are_valid_manifests() -> None:
    for path in (places.LIVE.parent.parent / "examples" / "manifests" / "containerd").glob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            kubernetes_validate.validate(document, "1.37", strict=True)


def test_an_event_line_is_read_whatever_its_topic() -> None:
    started = parse('2026-01-02 03:04:05.6 +0000 UTC k8s.io /tasks/start {"container_id":"abc","pid":7}\n')
    assert started is not None
    assert ("/tasks/start", "abc", 7) == (started.topic, started.container, started.fields["pid"])
    assert parse("something else\n") is None


def test_a_containerd_is_up_and_says_so_over_cri(containerd: Containerd) -> None:
    reply = containerd.cri.call("Version")
    assert ("containerd", "v1") == (reply.runtime_name, reply.runtime_api_version)
    assert containerd.version == reply.runtime_version.removeprefix("v")


def test_the_two_are_of_different_lines_and_run_side_by_side(containerd1: Containerd, containerd2: Containerd) -> None:
    assert (1, 2) == (containerd1.major, containerd2.major)
    one, two = Pod(containerd1), Pod(containerd2)
    one.start(["serve", "8080"])
    server = two.start(["serve", "8080"])
    server.wait_output("serving")
    assert one.ip.rsplit(".", 1)[0] != two.ip.rsplit(".", 1)[0]
    assert [one.id] == [item.id for item in containerd1.cri.call("ListPodSandbox").items]
    assert [two.id] == [item.id for item in containerd2.cri.call("ListPodSandbox").items]


def test_a_container_starts_answers_and_ends_on_sigterm_within_its_grace(containerd: Containerd) -> None:
    container = Pod(containerd).start(["-c", "echo hello; exec testprog trap 10"], command=["sh"])
    container.wait_output("waiting")
    assert (0, "from inside\n") == container.run("echo", "from inside")
    containerd.cri.call("StopContainer", seconds=90, container_id=container.id, timeout=60)
    status = container.wait_exit()
    assert (0, "Completed") == (status.exit_code, status.reason)
    assert "hello\nwaiting\nSIGTERM\n" == container.output


def test_a_container_that_ignores_sigterm_is_killed(containerd: Containerd) -> None:
    container = Pod(containerd).start(["stubborn"])
    container.wait_output("waiting")
    containerd.cri.call("StopContainer", container_id=container.id, timeout=1)
    assert 137 == container.wait_exit().exit_code


def test_an_exit_code_is_kept(containerd: Containerd) -> None:
    status = Pod(containerd).start(["exit", "7"]).wait_exit()
    assert (7, "Error") == (status.exit_code, status.reason)


def test_a_container_over_its_memory_limit_is_oomkilled(containerd: Containerd) -> None:
    limit = api.LinuxContainerResources(memory_limit_in_bytes=24 << 20, memory_swap_limit_in_bytes=24 << 20)
    reasons = []
    # containerd learns of the end and of its reason in two ways, and on a busy machine the reason may be lost.
    while "OOMKilled" not in reasons and len(reasons) < 5:
        container = Pod(containerd).start(["eat", "200"], linux=api.LinuxContainerConfig(resources=limit))
        assert 137 == container.wait_exit().exit_code
        deadline = time.monotonic() + 10
        while container.status.reason != "OOMKilled" and time.monotonic() < deadline:
            time.sleep(0.1)
        reasons.append(container.status.reason)
    assert "OOMKilled" in reasons


def test_a_pod_is_reached_from_the_host_and_from_another_pod(containerd: Containerd) -> None:
    server, client = Pod(containerd, "server"), Pod(containerd, "client")
    server.start(["serve", "8080"]).wait_output("serving")
    assert (200, "testprog on server\n") == network.ask(server.ip, 8080)
    other = client.start(["stubborn"])
    assert (0, "testprog on server\n") == other.run("testprog", "get", server.ip, "8080")


def test_a_host_port_leads_to_the_pod_by_address_and_by_loopback(containerd: Containerd) -> None:
    port = network.free_port()
    pod = Pod(containerd, "behind", ports={port: 8080})
    pod.start(["serve", "8080"]).wait_output("serving")
    assert (200, "testprog on behind\n") == network.ask(network.host_address(), port)
    assert (200, "testprog on behind\n") == network.ask("127.0.0.1", port)
    pod.remove()
    with pytest.raises(OSError, match=r"refused|timed out"):
        network.ask("127.0.0.1", port, seconds=2)


def test_a_host_network_pod_listens_on_the_host(containerd: Containerd) -> None:
    port = network.free_port()
    pod = Pod(containerd, host_network=True)
    pod.start(["serve", str(port)]).wait_output("serving")
    assert 200 == network.ask("127.0.0.1", port)[0]
    assert pod.ip == ""


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_containers_live_through_an_end_of_containerd(containerd: Containerd, end: str) -> None:
    pod = Pod(containerd, "survivor")
    container = pod.start(["serve", "8080"])
    container.wait_output("serving")
    before, address = containerd.tasks(), pod.ip
    if end == "restart":
        containerd.restart()
    else:
        containerd.kill()
        assert 200 == network.ask(address, 8080)[0]
        containerd.start()
    assert before == containerd.tasks()
    assert {pod.id, container.id} == before.keys()
    assert api.CONTAINER_RUNNING == container.status.state
    assert (0, "ok\n") == container.run("testprog", "get", "127.0.0.1", "8080", "/healthz")


def test_the_event_log_hears_starts_and_exits_and_nothing_in_between(containerd: Containerd) -> None:
    with containerd.events() as log:
        pod = Pod(containerd)
        container = pod.start(["exit", "3"])
        (exit_event,) = log.wait_for("/tasks/exit", container.id)
        assert 3 == exit_event.fields["exit_status"]
        assert {pod.id, container.id} == {event.container for event in log.of("/tasks/start")}
        assert [] == log.of("/tasks/exit", pod.id)


def test_containerd_2_streams_container_events_with_the_statuses(containerd2: Containerd) -> None:
    def life() -> None:
        Pod(containerd2, "eventful").start(["exit", "5"]).wait_exit()

    def ended(events: Sequence[Any]) -> bool:
        return any(
            event.container_event_type == api.CONTAINER_STOPPED_EVENT
            for event in events
            if event.pod_sandbox_status.metadata.name == "eventful"
        )

    # containerd keeps what happened while nobody listened, up to a thousand events: other tests' pods come first.
    events = containerd2.cri.collect("GetContainerEvents", ended, life)
    mine = [event for event in events if event.pod_sandbox_status.metadata.name == "eventful"]
    kinds = {event.container_event_type for event in mine}
    assert {api.CONTAINER_CREATED_EVENT, api.CONTAINER_STARTED_EVENT, api.CONTAINER_STOPPED_EVENT} <= kinds
    assert 5 in {status.exit_code for event in mine for status in event.containers_statuses}


def test_containerd_1_says_it_has_no_container_events(containerd1: Containerd) -> None:
    with pytest.raises(GRPCError) as refused:
        containerd1.cri.collect("GetContainerEvents", lambda _: False, lambda: None)
    assert Status.UNIMPLEMENTED == refused.value.status


def test_an_image_is_pulled_from_the_registry_on_loopback(containerd: Containerd, registry: Registry) -> None:
    containerd.trust(registry.address)
    wanted = api.ImageSpec(image=registry.image)
    containerd.cri.call("PullImage", image=wanted)
    assert 1 == registry.pulls
    assert 6 == Pod(containerd).start(["exit", "6"], registry.image).wait_exit().exit_code
    containerd.remove_pods()
    containerd.cri.call("RemoveImage", image=wanted)


def test_registry_with_a_password_rejects_other_clients(containerd: Containerd, registry: Registry) -> None:
    containerd.trust(registry.address)
    registry.login = ("ada", "lovelace")
    wanted = api.ImageSpec(image=registry.image)
    with pytest.raises(GRPCError, match=r"no basic auth credentials|401"):
        containerd.cri.call("PullImage", image=wanted)
    assert 0 == registry.pulls
    containerd.cri.call("PullImage", image=wanted, auth=api.AuthConfig(username="ada", password="lovelace"))
    containerd.cri.call("RemoveImage", image=wanted)


def test_an_image_the_registry_does_not_have_cannot_be_pulled(containerd: Containerd, registry: Registry) -> None:
    containerd.trust(registry.address)
    with pytest.raises(GRPCError) as refused:
        containerd.cri.call("PullImage", image=api.ImageSpec(image=f"{registry.address}/absent:1"))
    assert Status.NOT_FOUND == refused.value.status


def test_a_registry_out_of_order_fails_a_pull_and_the_next_one_succeeds(
    containerd: Containerd, registry: Registry
) -> None:
    containerd.trust(registry.address)
    registry.refusals = 1000
    wanted = api.ImageSpec(image=registry.image)
    with pytest.raises(GRPCError, match="503"):
        containerd.cri.call("PullImage", image=wanted)
    registry.refusals = 0
    containerd.cri.call("PullImage", image=wanted)
    assert 1 == registry.pulls
    containerd.cri.call("RemoveImage", image=wanted)


def test_fifty_pods_are_up_at_once_each_with_its_own_address(containerd: Containerd) -> None:
    def bring_up(number: int) -> Pod:
        pod = Pod(containerd, f"one-of-fifty-{number}")
        pod.start(["stubborn"])
        return pod

    with ThreadPoolExecutor(max_workers=8) as pool:
        pods = list(pool.map(bring_up, range(50)))
    assert 50 == len({pod.ip for pod in pods})
    assert 100 == len(containerd.tasks())


def test_a_second_runtime_handler_is_known(containerd: Containerd) -> None:
    config = Pod(containerd).config
    config.metadata.uid += "-second"
    sandbox = containerd.cri.call("RunPodSandbox", config=config, runtime_handler="second").pod_sandbox_id
    status = containerd.cri.call("PodSandboxStatus", pod_sandbox_id=sandbox).status
    assert "second" == status.runtime_handler


def test_a_mount_made_inside_reaches_a_running_container_and_not_the_machine(containerd: Containerd) -> None:
    shared = containerd.directory / "shared"
    (shared / "late").mkdir(parents=True)
    mount = api.Mount(container_path="/shared", host_path=str(shared), propagation=api.PROPAGATION_HOST_TO_CONTAINER)
    container = Pod(containerd).start(["stubborn"], mounts=[mount])
    subprocess.run(containerd.inside(["mount", "-t", "tmpfs", "late", str(shared / "late")]), check=True)
    subprocess.run(containerd.inside(["touch", str(shared / "late" / "seen")]), check=True)
    assert (0, "seen\n") == container.run("ls", "/shared/late")
    assert [] == list((shared / "late").iterdir())


def test_pods_stand_below_the_instances_own_cgroup(containerd: Containerd) -> None:
    container = Pod(containerd).start(["stubborn"])
    pid = containerd.tasks()[container.id]
    with open(f"/proc/{pid}/cgroup") as file:
        assert f":{containerd.cgroup_parent}/" in file.read()


async def test_a_trio_test_uses_a_containerd_from_a_thread(containerd: Containerd) -> None:
    async def in_a_thread(work: Callable[[], object]) -> None:
        await trio.to_thread.run_sync(work)

    async with trio.open_nursery() as nursery:
        for name in ("left", "right"):
            nursery.start_soon(in_a_thread, partial(Pod, containerd, name))
    sandboxes = (await trio.to_thread.run_sync(containerd.cri.call, "ListPodSandbox")).items
    assert {"left", "right"} == {sandbox.metadata.name for sandbox in sandboxes}


@pytest.mark.parametrize("which", [distribution, newer])
def test_a_closed_containerd_leaves_nothing_behind(
    swept_machine: None, which: Callable[[], tuple[configuration.Programs, Callable[..., str]]]
) -> None:
    daemon = Containerd(*which())
    port = network.free_port()
    Pod(daemon, ports={port: 8080}).start(["serve", "8080"]).wait_output("serving")
    agent = subprocess.Popen(daemon.inside(["sleep", "infinity"]), start_new_session=True)
    assert daemon.bridge in network.links()
    assert instance.leftovers(daemon.instance) != []
    daemon.close()
    assert -signal.SIGKILL == agent.wait()
    assert [] == instance.leftovers(daemon.instance)


def test_what_a_killed_test_run_left_is_swept_by_the_next(swept_machine: None) -> None:
    """The run is killed with a pod up, a host port mapped and containerd itself dead: the worst it can leave."""
    script = (
        "from live.kit.containerd import Containerd, newer\n"
        "from live.kit.pods import Pod\n"
        "import sys\n"
        "daemon = Containerd(*newer())\n"
        "Pod(daemon, ports={int(sys.argv[1]): 8080}).start(['serve', '8080']).wait_output('serving')\n"
        "daemon.kill()\n"
        "print(daemon.instance.number, flush=True)\n"
        "sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, str(network.free_port())]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=places.LIVE.parent
    ) as run:
        assert run.stdout is not None
        left = instance.Instance(int(run.stdout.readline()))
        run.send_signal(signal.SIGKILL)
    assert len(instance.processes(left)) >= 4  # the holder, the shim, the pause process, the server
    assert left in instance.sweep_abandoned()
    assert [] == instance.leftovers(left)


def test_mounts_and_cgroups_of_a_killed_test_run_are_swept_with_what_lives_in_them(swept_machine: None) -> None:
    script = (
        "import subprocess, sys\n"
        "from live.kit import instance, marked\n"
        "with marked.directory() as place:\n"
        "    subprocess.run(['mount', '-t', 'tmpfs', 'left', str(place)], check=True)\n"
        "    (place / 'deep').mkdir()\n"
        "    subprocess.run(['mount', '-t', 'tmpfs', 'left', str(place / 'deep')], check=True)\n"
        "    cgroup = next(tree for tree in instance.hierarchies() if tree.name != 'cpuset') / marked.name() / 'pod'\n"
        "    cgroup.mkdir(parents=True)\n"
        "    sleeper = subprocess.Popen(['sleep', '600'])\n"
        "    (cgroup / 'cgroup.procs').write_text(str(sleeper.pid))\n"
        "    print(place, cgroup, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=places.LIVE.parent
    ) as run:
        assert run.stdout is not None
        place, cgroup = map(Path, run.stdout.readline().split())
        run.send_signal(signal.SIGKILL)
    assert place.is_mount()
    marked.sweep_abandoned()
    assert (False, False) == (place.exists(), cgroup.parent.exists())


def test_waiting_in_vain_ends_with_the_reason() -> None:
    with pytest.raises(RuntimeError, match="because of this"):
        await_that(lambda: False, 0, lambda: "because of this")
