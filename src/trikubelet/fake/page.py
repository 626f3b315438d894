"""The HTML page: pods and their containers as a table, with a button for each intervention.

Plain HTML without anything to load. The buttons send the requests of ``control`` and reload the page.
"""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.fake.conduct import Conduct
    from trikubelet.fake.population import Population
    from trikubelet.fake.records import Container, Sandbox

PODS_SHOWN_MAX: Final = 200
"""More would make the page unreadable; /state has them all."""

STATE_WORDS: Final = {pb.CONTAINER_CREATED: "created", pb.CONTAINER_RUNNING: "running", pb.CONTAINER_EXITED: "exited"}

_HEAD: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>The fake runtime</title>
<style>
body { font: 15px system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .3em .6em; vertical-align: top }
tr { border-top: 1px solid #ddd } code { font-size: 12px; color: #666 } button { font: inherit; font-size: 12px }
.running, .ready { color: #17692b } .exited, .dead { color: #a11 } .hangs { background: #fff3cd }
#error { color: #a11; min-height: 1.4em }
</style>
<script>
addEventListener("click", async event => {
  const path = event.target.dataset.order;
  if (!path) return;
  const answer = await fetch(path, { method: "POST" });
  if (answer.ok) location.reload(); else document.getElementById("error").textContent = await answer.text();
});
</script>
"""


def as_html(population: Population, conduct: Conduct) -> str:
    """The whole page."""
    pods, shown = population.pods, min(len(population.pods), PODS_SHOWN_MAX)
    rows = "\n".join(_pod(uid, pods[uid], uid in conduct.hung) for uid in islice(pods, PODS_SHOWN_MAX))
    manners = (
        f"Lists take {conduct.list_latency_seconds:g} s, status calls {conduct.status_latency_seconds:g} s; "
        f"{conduct.error_rate:.1%} of them fail. Events: {_yes(conduct.events)}. "
        f"Streamed lists: {_yes(conduct.streaming)}. Message limit: {conduct.message_bytes_max} bytes."
    )
    return f"""{_HEAD}
<h1>The fake runtime</h1>
<p>{len(pods)} pods, {len(population.containers)} containers, none of which runs. {manners}</p>
<p>{_button("/tick?fraction=0.01", "1 % of the pods change")} {_button("/tick?fraction=0.1", "10 %")}
{_button("/tick?fraction=1", "all")} &middot; <a href="/state">state</a> &middot; <a href="/figures">figures</a></p>
<p id="error"></p>
<table><tr><th>Pod<th>Sandbox<th>Containers</tr>
{rows}
</table>
<p>{shown} of {len(pods)} pods are shown.</p>
</html>
"""


def state_word(container: Container) -> str:
    """A container's state as one word."""
    return STATE_WORDS[container.state]


def _pod(uid: str, sandboxes: dict[str, Sandbox], hangs: bool) -> str:
    first = next(iter(sandboxes.values()))
    name = f"{escape(first.namespace)}/<b>{escape(first.name)}</b><br><code>{escape(uid)}</code>"
    order = "release" if hangs else "hang"
    button = _button(f"/pods/{quote(uid, safe='')}/{order}", order)
    cells = "".join(f"<td>{cell}" for cell in _cells(sandboxes))
    return f'<tr class="{"hangs" if hangs else ""}"><td>{name}<br>{button}{cells}</tr>'


def _cells(sandboxes: dict[str, Sandbox]) -> Iterator[str]:
    yield "<br>".join(_sandbox(sandbox) for sandbox in sandboxes.values())
    yield "<br>".join(_container(c) for sandbox in sandboxes.values() for c in sandbox.containers.values())


def _sandbox(sandbox: Sandbox) -> str:
    state = "ready" if sandbox.ready else "dead"
    button = _button(f"/sandboxes/{sandbox.id}/kill", "kill") if sandbox.ready else ""
    return f'<code>{sandbox.id[:12]}</code> <span class="{state}">{state}</span> {button}'


def _container(container: Container) -> str:
    state = state_word(container)
    running = container.state == pb.CONTAINER_RUNNING
    more = "" if running else f" ({container.exit_code} {escape(container.reason)})" * (state == "exited")
    buttons = [_button(f"/containers/{container.id}/exit?code={code}", f"exit {code}") for code in (0, 1)]
    return (
        f"{escape(container.name)} #{container.attempt} <code>{container.id[:12]}</code> "
        f'<span class="{state}">{state}{more}</span> {" ".join(buttons) if running else ""}'
    )


def _button(path: str, words: str) -> str:
    return f'<button data-order="{escape(path)}">{escape(words)}</button>'


def _yes(so: bool) -> str:
    return "yes" if so else "no"
