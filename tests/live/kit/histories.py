"""What became of the containers of each name, as containerd tells it, and what of that no kubelet may do to such pods.

containerd's log names whom a container was made for, under which number, and which starts came to their end; its events
say what ran, and how that ended. Nothing here comes from the agent. A start whose caller is killed is rolled back by
containerd, after its program may have run for a moment: that is its own doing, and counts neither as a run nor as an
end.

Called by the tests that kill agents at moments nobody has chosen. They say what must hold of each container, for how
many calls a killed agent leaves half done is chance; and which containers are to run only once, for that is a question
of the pod: init containers, and what has the restart policy Never or OnFailure.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .events import Event

# containerd 1.6 writes &PodSandboxMetadata{Name:web,…}, and 2.2 name:"web" …, their quotes escaped.
_NAME = r"for \W*(?:\w+\{)?[Nn]ame:\W*([\w.-]+)"
_SANDBOX = re.compile(rf"RunPodSandbox {_NAME}.* returns sandbox id \W*(\w{{64}})")
_MADE = re.compile(rf"CreateContainer within sandbox \W*(\w{{64}})\W* {_NAME}.* returns container id \W*(\w{{64}})")
_STARTED = re.compile(r"StartContainer for \W*(\w{64})\W* returns successfully")


@dataclass(frozen=True)
class Made:
    """A container, or a sandbox, whose ``name`` is empty then. ``pod`` is the pod's name."""

    pod: str
    name: str
    sandbox: str


@dataclass(frozen=True)
class Histories:
    """``made``: what was made, by id. ``started``: ids of the sandboxes and containers whose start came to its end."""

    made: dict[str, Made]
    started: frozenset[str]
    events: tuple[Event, ...]

    def faults(self, once: Collection[str]) -> list[str]:
        """What must never happen to pods that nobody wants changed or ended: a container is started while one of its
        name runs in its pod; one of the names ``once`` is started after one of its name has ended well in the same
        sandbox (any other has the restart policy Always, which wants just that); a sandbox that runs is ended."""
        faults: list[str] = []
        running: dict[tuple[str, str], str] = {}
        well: set[tuple[str, str]] = set()
        for event in self.events:
            id_ = event.container
            one = self.made.get(id_)
            # What runs in a container beside its program ends under an id of its own.
            if one is None or id_ not in self.started or event.fields.get("id", id_) != id_:
                continue
            who = f"{one.pod}/{one.name or 'sandbox'} ({id_[:12]})"
            if event.topic == "/tasks/start":
                if (other := running.get((one.pod, one.name))) is not None:
                    faults.append(f"{who} is started while {other[:12]} runs")
                if (one.sandbox, one.name) in well:
                    faults.append(f"{who} is started after one of its name has ended well")
                running[one.pod, one.name] = id_
            elif event.topic == "/tasks/exit":
                running.pop((one.pod, one.name), None)
                if not one.name:
                    faults.append(f"{who} ended")
                elif one.name in once and not event.fields.get("exit_status", 0):
                    well.add((one.sandbox, one.name))
        return faults

    def abandoned(self) -> Counter[tuple[str, str]]:
        """How many containers of each pod and name were made and not started, or whose start was rolled back."""
        return Counter((one.pod, one.name) for id_, one in self.made.items() if id_ not in self.started)


def read_histories(log: str, events: Iterable[Event]) -> Histories:
    """From all that containerd has logged, at its usual level, and told."""
    sandboxes = {id_: pod for pod, id_ in _SANDBOX.findall(log)}
    made = {id_: Made(pod, "", id_) for id_, pod in sandboxes.items()}
    for sandbox, name, id_ in _MADE.findall(log):
        made[id_] = Made(sandboxes.get(sandbox, ""), name, sandbox)
    return Histories(made, frozenset(_STARTED.findall(log)) | sandboxes.keys(), tuple(events))
