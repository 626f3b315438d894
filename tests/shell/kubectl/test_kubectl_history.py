"""What counts as a change, and how long it is remembered (server/kubectl/history.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from shell.localkit import FakeAgent, FakeView, pod
from trikubelet.app.kubectl_resources import resources
from trikubelet.model import k8s
from trikubelet.server.kubectl.history import CHANGES_KEPT_MAX, Expired, History

BEGIN = 1000


@dataclass
class Looked:
    """A history of pods, and how often they were asked for."""

    view: FakeView = field(default_factory=FakeView)
    asked: int = 0

    def __post_init__(self) -> None:
        of_pods = next(one for one in resources(self.view, FakeAgent()) if one.name == "pods")

        async def counted() -> list[k8s.Pod]:
            self.asked += 1
            return self.view.shown

        kept = {name: getattr(of_pods, name) for name in of_pods.__dataclass_fields__}
        self.history = History(type(of_pods)(**{**kept, "things": counted}), BEGIN)


async def test_what_is_equal_is_no_change_even_if_it_is_another_object() -> None:
    looked = Looked(FakeView([pod()]))
    await looked.history.look(fresh=True)
    [first] = looked.history.things
    looked.view.shown = [pod()]
    await looked.history.look(fresh=True)

    assert BEGIN + 1 == looked.history.version
    assert [first] == looked.history.things


async def test_two_lives_of_one_name_are_two_things() -> None:
    looked = Looked(FakeView([pod(uid="1"), pod(uid="2")]))
    await looked.history.look(fresh=True)
    assert ["1", "2"] == [one.metadata.uid for one in looked.history.things]


async def test_a_pod_that_comes_back_from_its_end_under_its_uid_is_removed_and_added() -> None:
    def in_phase(phase: str) -> k8s.Pod:
        return msgspec.structs.replace(pod(uid="1"), status=k8s.PodStatus(phase=phase))

    looked = Looked(FakeView([in_phase("Pending")]))
    for phase in ("Running", "Failed", "Pending", "Running"):
        await looked.history.look(fresh=True)
        looked.view.shown = [in_phase(phase)]
    await looked.history.look(fresh=True)

    shown = [(one.gone, one.before is None, one.thing.status.phase) for one in looked.history.since(BEGIN)]
    assert [
        (False, True, "Pending"),
        (False, False, "Running"),
        (False, False, "Failed"),
        (True, False, "Failed"),
        (False, True, "Pending"),
        (False, False, "Running"),
    ] == shown
    assert ["Running"] == [one.status.phase for one in looked.history.things]


async def test_many_watchers_cost_one_look(autojump_clock) -> None:
    looked = Looked(FakeView([pod()]))
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(lambda: looked.history.look(fresh=False))
    assert 1 == looked.asked
    await trio.sleep(1)
    await looked.history.look(fresh=False)
    assert 2 == looked.asked


async def test_forgotten_changes_make_the_client_list_again() -> None:
    looked = Looked()
    for number in range(CHANGES_KEPT_MAX + 1):
        looked.view.shown = [pod(f"p{number}")]
        await looked.history.look(fresh=True)

    newest = looked.history.version
    assert CHANGES_KEPT_MAX == len(looked.history.since(newest - CHANGES_KEPT_MAX))
    with pytest.raises(Expired):
        looked.history.since(newest - CHANGES_KEPT_MAX - 1)


PODS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)


@given(st.lists(PODS, min_size=1, max_size=8), st.data())
def test_a_list_and_the_changes_after_it_are_a_later_list(looks: list[dict[str, str]], data: st.DataObject) -> None:
    async def check() -> None:
        looked = Looked()
        lists = []
        for look in looks:
            looked.view.shown = [_pod(name, what) for name, what in look.items()]
            await looked.history.look(fresh=True)
            lists.append((looked.history.version, {one.metadata.name: one for one in looked.history.things}))
        version, known = data.draw(st.sampled_from(lists))
        for change in looked.history.since(version):
            name = change.thing.metadata.name
            assert change.before == known.get(name)
            if change.gone:
                del known[name]
            else:
                known[name] = change.thing
        assert lists[-1][1] == known

    trio.run(check)


def _pod(name: str, label: str) -> k8s.Pod:
    made = pod(name)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels={"what": label}))
