"""The fake runtime's HTTP page: looking at the pods, and reaching in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from shell.fake.fakekit import Fake, fake
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime_config import SandboxConfig

if TYPE_CHECKING:
    from trio.testing import MockClock


async def state(runtime: Fake) -> dict[str, Any]:
    status, body = await runtime.ask("GET", "/state")
    assert 200 == status
    found: dict[str, Any] = json.loads(body)
    return found


async def test_the_state_has_every_pod_with_its_containers(autojump_clock: MockClock) -> None:
    async with fake(pods=3, containers_per_pod=2, error_rate=0.5) as runtime:
        found = await state(runtime)

    assert 3 == len(found["pods"])
    [sandbox] = found["pods"][0]["sandboxes"]
    assert (True, 2) == (sandbox["ready"], len(sandbox["containers"]))
    assert {"running"} == {container["state"] for container in sandbox["containers"]}
    assert 0.5 == found["settings"]["error_rate"]


async def test_a_hand_ends_a_container_and_kills_a_sandbox(autojump_clock: MockClock) -> None:
    async with fake(pods=1, containers_per_pod=2) as runtime:
        [pod] = (await state(runtime))["pods"]
        [sandbox] = pod["sandboxes"]
        one, two = (container["id"] for container in sandbox["containers"])

        assert 200 == (await runtime.ask("POST", f"/containers/{one}/exit?code=7"))[0]
        status = await runtime.container(one)
        assert (pb.CONTAINER_EXITED, 7, "Error") == (status.state, status.exit_code, status.reason)
        assert (409, f"container {one} does not run\n") == await runtime.ask("POST", f"/containers/{one}/exit")

        assert 200 == (await runtime.ask("POST", f"/sandboxes/{sandbox['id']}/kill"))[0]
        assert pb.SANDBOX_NOTREADY == (await runtime.sandbox(sandbox["id"])).state
        assert 137 == (await runtime.container(two)).exit_code


async def test_status_calls_of_a_hanging_pod_wait_until_it_is_released(autojump_clock: MockClock) -> None:
    async with fake(pods=2, containers_per_pod=1) as runtime, trio.open_nursery() as nursery:
        hanging, other = (await state(runtime))["pods"]
        answered = []

        async def look(pod: dict[str, Any]) -> None:
            [sandbox] = pod["sandboxes"]
            await runtime.container(sandbox["containers"][0]["id"])
            answered.append(pod["uid"])

        await runtime.ask("POST", f"/pods/{hanging['uid']}/hang")
        nursery.start_soon(look, hanging)
        nursery.start_soon(look, other)
        await trio.sleep(1000)
        assert [other["uid"]] == answered
        assert [True, False] == [pod["hangs"] for pod in (await state(runtime))["pods"]]

        await runtime.ask("POST", f"/pods/{hanging['uid']}/release")
        await wait_all_tasks_blocked()
        assert [other["uid"], hanging["uid"]] == answered


async def test_a_tick_changes_pods_and_says_which(autojump_clock: MockClock) -> None:
    async with fake(pods=10, containers_per_pod=1) as runtime:
        status, body = await runtime.ask("POST", "/tick?fraction=0.3")
        pods = (await state(runtime))["pods"]

    assert 200 == status
    changed = {p["uid"] for p in pods for s in p["sandboxes"] for c in s["containers"] if c["state"] == "exited"}
    assert changed == set(json.loads(body)["changed"])
    assert 3 == len(changed)


async def test_settings_are_set_together_or_not_at_all(autojump_clock: MockClock) -> None:
    async with fake() as runtime:
        assert 200 == (await runtime.ask("POST", "/settings?list-latency=50ms&error-rate=0.5"))[0]
        assert 400 == (await runtime.ask("POST", "/settings?list-latency=2s&error-rate=7"))[0]
        found = (await state(runtime))["settings"]

    assert (0.05, 0.0, 0.5) == tuple(
        found[name] for name in ("list_latency_seconds", "status_latency_seconds", "error_rate")
    )


async def test_the_figures_tell_what_the_last_list_cost(autojump_clock: MockClock) -> None:
    async with fake(pods=10, containers_per_pod=2) as runtime:
        reply = await runtime.stub.ListContainers.raw(pb.ListContainersRequest())
        _, body = await runtime.ask("GET", "/figures")

    found = json.loads(body)
    cost = found["lists"]["ListContainers"]
    assert (1, len(reply)) == (cost["lists"], cost["bytes"])
    assert cost["build_cpu_ns"] > 0
    assert cost["send_cpu_ns"] > 0
    assert found["process_cpu_ns"] > cost["total_build_cpu_ns"] + cost["total_send_cpu_ns"]


async def test_the_page_shows_pods_with_buttons_and_no_name_breaks_out_of_it(autojump_clock: MockClock) -> None:
    async with fake(pods=2, containers_per_pod=1) as runtime:
        wicked = "<script>alert(1)</script>"
        await runtime.runtime.run_sandbox(SandboxConfig(uid="u'\"x", name=wicked, namespace="n", attempt=0))
        status, body = await runtime.ask("GET", "/")
        pods = (await state(runtime))["pods"]

    assert 200 == status
    assert wicked not in body
    assert "/pods/u%27%22x/hang" in body
    for pod in pods[:2]:
        [sandbox] = pod["sandboxes"]
        assert f'data-order="/sandboxes/{sandbox["id"]}/kill"' in body
        assert f'data-order="/containers/{sandbox["containers"][0]["id"]}/exit?code=1"' in body


@pytest.mark.parametrize(
    ("status", "words", "method", "target"),
    [
        (404, "nothing at /nowhere", "GET", "/nowhere"),
        (404, "nothing can be done at /nowhere", "POST", "/nowhere"),
        (404, "no container abc", "POST", "/containers/abc/exit"),
        (404, "no sandbox abc", "POST", "/sandboxes/abc/kill"),
        (404, "no pod abc", "POST", "/pods/abc/hang"),
        (405, "only GET and POST", "DELETE", "/state"),
        (400, "code: 'x' is not an exit code from 0 to 255", "POST", "/containers/abc/exit?code=x"),
        (400, "fraction: 'nan' is not a fraction from 0 to 1", "POST", "/tick?fraction=nan"),
        (400, "list-latency: '5x' is not a duration", "POST", "/settings?list-latency=5x"),
        (400, "list-latency: '2h' is not between 0 and 3600 s", "POST", "/settings?list-latency=2h"),
        (400, "list-latency is said 2 times: say it once", "POST", "/settings?list-latency=1&list-latency=2"),
        (400, "latency means nothing here: list-latency,", "POST", "/settings?latency=5s"),
        (400, "fractoin means nothing here: fraction can be said", "POST", "/tick?fractoin=1"),
        (400, "exit means nothing here: code can be said", "POST", "/containers/abc/exit?exit=1"),
        (400, "grace means nothing here: nothing can be said", "POST", "/sandboxes/abc/kill?grace=1"),
        (400, "for means nothing here: nothing can be said", "POST", "/pods/abc/hang?for=1s"),
    ],
)
async def test_what_is_wrong_is_reported_in_one_line(
    status: int, words: str, method: str, target: str, autojump_clock: MockClock
) -> None:
    async with fake() as runtime:
        found, body = await runtime.ask(method, target)

    assert status == found
    assert words in body
    assert 1 == body.count("\n")


async def test_a_page_of_another_server_gives_no_orders(autojump_clock: MockClock) -> None:
    async with fake(pods=1) as runtime:
        assert 403 == (await runtime.ask("POST", "/tick?fraction=1", origin="http://evil.example"))[0]
        assert 200 == (await runtime.ask("POST", "/tick?fraction=1", origin="http://127.0.0.1:8080"))[0]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil", "["])
async def test_a_name_that_was_made_to_lead_here_gives_no_orders(host: str, autojump_clock: MockClock) -> None:
    async with fake(pods=1) as runtime:
        assert 403 == (await runtime.ask("POST", "/tick", host=host, origin=f"http://{host}"))[0]
        assert 403 == (await runtime.ask("POST", "/tick", host=host))[0]


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1", "192.0.2.7:8080", "[::1]:8080"])
async def test_addresses_and_localhost_take_orders(host: str, autojump_clock: MockClock) -> None:
    async with fake(pods=1) as runtime:
        assert 200 == (await runtime.ask("POST", "/tick", host=host, origin=f"http://{host}"))[0]


async def test_an_order_with_a_body_is_refused_and_not_half_obeyed(autojump_clock: MockClock) -> None:
    async with fake(pods=1) as runtime:
        assert 400 == (await runtime.ask("POST", "/tick?fraction=1", b"fraction=0"))[0]
        assert '"exited"' not in (await runtime.ask("GET", "/state"))[1]
