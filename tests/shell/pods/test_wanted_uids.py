"""Which UIDs nobody can want, by what was known when: what may be removed hangs on it."""

from __future__ import annotations

from trikubelet.pods.wanted_uids import WantedUids


def test_beside_an_invalid_manifest_only_what_ended_here_is_certainly_unwanted() -> None:
    uids = WantedUids()
    uids.replace({"wanted"}, all_known=False)
    for uid in ("wanted", "ended"):
        uids.note_end(uid)

    assert [False, True, False] == [uids.is_certainly_unwanted(uid) for uid in ("wanted", "ended", "unknown")]

    uids.note_beginning("ended")
    assert not uids.is_certainly_unwanted("ended")


def test_what_ended_while_all_was_known_may_be_wanted_by_a_manifest_that_is_invalid_since() -> None:
    uids = WantedUids()
    uids.replace((), all_known=True)
    uids.note_end("ended")
    assert uids.is_certainly_unwanted("ended")

    uids.replace((), all_known=False)
    assert not uids.is_certainly_unwanted("ended")


def test_what_ended_beside_one_invalid_manifest_may_be_wanted_by_the_next() -> None:
    uids = WantedUids()
    uids.replace((), all_known=False)
    uids.note_end("ended")
    for all_known in (True, False):
        uids.replace((), all_known=all_known)

    assert not uids.is_certainly_unwanted("ended")
