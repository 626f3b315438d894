"""``apply`` and ``delete``: what they do to a directory of manifests, and what they refuse to do."""

from __future__ import annotations

import fcntl
import io
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from shell.localkit import FakeAgent, FakeView, served
from trikubelet.cli.main import main
from trikubelet.cli.manifest_directory import LOCK_TRIES_MAX
from trikubelet.server.agent_view import ConfigNote

if TYPE_CHECKING:
    from collections.abc import Callable

    Spoken = Callable[..., tuple[int, str, str]]


def manifest(*names: str, image: str = "a") -> str:
    return "\n---\n".join(
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers: [{{name: c, image: {image}}}]\n"
        for name in names
    )


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The agent's directory."""
    (tmp_path / "there").mkdir()
    return tmp_path / "there"


@pytest.fixture
def say(there: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Spoken:
    monkeypatch.setattr("socket.gethostname", lambda: "N1")

    def said(*words: str) -> tuple[int, str, str]:
        code = main([*words, f"--to={there}"])
        told = capsys.readouterr()
        return code, told.out, told.err

    return said


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def deleted(there: Path, name: str) -> str:
    return f'pod "{name}-n1" deleted (removed {there}/{name}.yaml; a copy is {there}/.{name}.yaml.deleted)\n'


def files(there: Path) -> dict[str, str]:
    """The manifests, without what is kept next to them."""
    return {path.name: path.read_text() for path in sorted(there.iterdir()) if not path.name.startswith(".")}


def test_a_manifest_is_created_then_unchanged_then_configured(tmp_path: Path, there: Path, say: Spoken) -> None:
    path = write(tmp_path / "web.yaml", manifest("web"))

    assert (0, "pod/web-n1 created\n", "") == say("apply", "-f", path)
    assert (0, "pod/web-n1 unchanged\n", "") == say("apply", "-f", path)
    write(tmp_path / "web.yaml", manifest("web", image="b"))
    assert (0, "pod/web-n1 configured\n", "") == say("apply", "-f", path)
    assert {"web.yaml": manifest("web", image="b")} == files(there)
    assert 0o600 == os.stat(there / "web.yaml").st_mode & 0o777


def test_what_a_file_defines_stays_where_it_was(tmp_path: Path, there: Path, say: Spoken) -> None:
    write(there / "old.yaml", manifest("web"))

    assert 0 == say("apply", "-f", write(tmp_path / "new.yaml", manifest("web", image="b")))[0]
    assert {"old.yaml": manifest("web", image="b")} == files(there)


def test_a_whole_directory_and_standard_input_can_be_applied(
    tmp_path: Path, there: Path, say: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    for name in ("a", "b"):
        write(tmp_path / "mine" / f"{name}.yaml", manifest(name))
    stdin = io.TextIOWrapper(io.BytesIO(manifest("c", "d").encode()))
    monkeypatch.setattr(sys, "stdin", stdin)

    code, out, _ = say("apply", "-f", str(tmp_path / "mine"), "-f", "-")

    assert (0, [f"pod/{name}-n1 created" for name in "abcd"]) == (code, out.splitlines())
    assert ["a.yaml", "b.yaml", "c-n1_default.yaml"] == list(files(there))


def test_with_one_fault_nothing_is_touched(tmp_path: Path, there: Path, say: Spoken) -> None:
    good, bad = write(tmp_path / "a.yaml", manifest("a")), write(tmp_path / "b.yaml", "kind: Pot\n")

    code, out, err = say("apply", "-f", good, "-f", bad)

    assert (1, "", {}) == (code, out, files(there))
    assert f"{bad}:1: kind" in err


@pytest.mark.parametrize(
    ("why", "name", "text"),
    [
        (
            "there/pair.yaml already, which also defines pod/db-n1 (use another name here, or edit that file)",
            "web.yaml",
            manifest("web"),
        ),
        ("there/pair.yaml also defines pod/web-n1, pod/db-n1", "pair.yaml", manifest("other")),
        ("what it defines stands in", "both.yaml", manifest("web", "db", "api")),
        ("a manifest cannot be named x.yaml.bak: it is a backup", "x.yaml.bak", manifest("new")),
        ("there is no pod and no object in it", "none.yaml", "# nothing\n"),
    ],
)
def test_what_would_take_more_than_was_named_is_refused(
    tmp_path: Path, there: Path, say: Spoken, why: str, name: str, text: str
) -> None:
    write(there / "pair.yaml", manifest("web", "db"))
    write(there / "api.yaml", manifest("api"))
    before = files(there)

    code, out, err = say("apply", "-f", write(tmp_path / name, text))

    assert (1, "", before) == (code, out, files(there))
    assert why in err


def test_two_files_that_would_become_one_are_refused(tmp_path: Path, there: Path, say: Spoken) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "x.yaml", manifest(name))

    code, out, err = say("apply", "-f", f"{tmp_path}/a", "-f", f"{tmp_path}/b")

    assert (1, "", {}) == (code, out, files(there))
    problem = f"{tmp_path}/b/x.yaml: would be {there}/x.yaml, and so would be the file of pod/a-n1"
    assert f"error: {problem} (rename one of the two)\n" == err


def test_a_faulty_files_name_is_one_line_and_moves_no_cursor(tmp_path: Path, there: Path, say: Spoken) -> None:
    write(there / "ev\x1b[31mil\nfile.yaml", "kind: Pot\n")

    code, _, err = say("delete", "-f", write(tmp_path / "x.yaml", manifest("absent")))
    assert (1, 1) == (code, err.count("\n"))
    assert f"{there}/ev^[[31mil file.yaml cannot be read for its faults" in err


@pytest.mark.parametrize("rest", ["---\nkind: Pot\n", "   broken: ["])
def test_faulty_file_with_a_running_pod_is_left_alone(tmp_path: Path, there: Path, say: Spoken, rest: str) -> None:
    write(there / "w.yaml", manifest("precious") + rest)
    before = files(there)

    code, out, err = say("apply", "-f", write(tmp_path / "w.yaml", manifest("other")))
    assert (1, "", before) == (code, out, files(there))
    assert f"{there}/w.yaml has a fault, so its objects are unknown" in err
    code, out, err = say("delete", "pod", "precious")
    assert (1, "", before) == (code, out, files(there))
    assert f"{there}/w.yaml" in err


def test_a_link_is_neither_replaced_nor_followed(tmp_path: Path, there: Path, say: Spoken) -> None:
    write(tmp_path / "real.yaml", manifest("web"))
    (there / "web.yaml").symlink_to(tmp_path / "real.yaml")

    code, _, err = say("apply", "-f", write(tmp_path / "web.yaml", manifest("web", image="b")))

    assert (1, True, manifest("web")) == (code, (there / "web.yaml").is_symlink(), (there / "web.yaml").read_text())
    assert f"{there}/web.yaml is a link to {tmp_path}/real.yaml (edit that, or rename yours)" in err


def test_what_is_immutable_is_not_changed(tmp_path: Path, there: Path, say: Spoken) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: top}\nimmutable: true\nstringData: {pw: hunter2}\n"
    path = write(tmp_path / "top.yaml", secret)
    assert 0 == say("apply", "-f", path)[0]

    write(tmp_path / "top.yaml", secret.replace("hunter2", "other"))
    code, out, err = say("apply", "-f", path)

    assert (1, "", {"top.yaml": secret}) == (code, out, files(there))
    assert f"{path}:3: immutable: Forbidden: Secret default/top is immutable" in err
    write(tmp_path / "top.yaml", f"# a comment\n{secret}")
    assert (0, "secret/top configured\n", "") == say("apply", "-f", path)


@pytest.mark.parametrize("failing", ["fsync", "rename"])
def test_when_one_file_cannot_be_written_all_are_as_they_were(
    tmp_path: Path, there: Path, say: Spoken, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    write(there / "a.yaml", manifest("a"))
    given = [write(tmp_path / "a.yaml", manifest("a", image="b"))]
    given += [write(tmp_path / f"{name}.yaml", manifest(name)) for name in ("new", "z")]
    rename, fsync = Path.replace, os.fsync
    synced: list[int] = []

    def replace(path: Path, target: Path) -> Path:
        if failing == "rename" and target.name == "z.yaml":
            raise PermissionError(1, "Operation not permitted", str(target))
        return rename(path, target)

    def sync(descriptor: int) -> None:
        synced.append(descriptor)
        if failing == "fsync" and len(synced) == 2:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(os, "fsync", sync)
    code, out, err = say("apply", *(word for path in given for word in ("-f", path)))

    assert (1, "", {"a.yaml": manifest("a")}) == (code, out, files(there))
    assert err.endswith(("z.yaml: Operation not permitted\n", "No space left on device\n"))


def test_what_comes_out_of_a_pipe_is_called_by_what_is_in_it(tmp_path: Path, there: Path, say: Spoken) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, manifest("three").encode())
    os.close(write_end)

    assert (0, "pod/three-n1 created\n", "") == say("apply", "-f", f"/dev/fd/{read_end}")
    os.close(read_end)
    assert ["three-n1_default.yaml"] == list(files(there))


def test_one_at_a_time_changes_the_directory(
    tmp_path: Path, there: Path, say: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "web.yaml", manifest("web"))
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    other = os.open(there, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)

    code, out, err = say("apply", "-f", path)
    assert (1, "", {}) == (code, out, files(there))
    assert f"error: {there} is being changed by another apply, delete or rollback: try again\n" == err
    assert LOCK_TRIES_MAX == len(waits)
    monkeypatch.setattr("time.sleep", lambda _: os.close(other))
    assert (0, "pod/web-n1 created\n", "") == say("apply", "-f", path)


def test_pods_are_deleted_by_either_name_and_by_file(tmp_path: Path, there: Path, say: Spoken) -> None:
    for name in ("a", "b", "c"):
        write(there / f"{name}.yaml", manifest(name))

    assert (0, deleted(there, "a") + deleted(there, "b"), "") == say("delete", "pod", "a", "b-n1")
    assert (0, deleted(there, "c"), "") == say("delete", "-f", write(tmp_path / "x.yaml", manifest("c")))
    assert {} == files(there)


@pytest.mark.parametrize("words", ["node vm", "no vm", "node/vm", "web-n1 event/x", "cm words", "secret/door"])
def test_only_pods_are_deleted_by_name(there: Path, say: Spoken, words: str) -> None:
    write(there / "web.yaml", manifest("web", "node"))

    code, _, err = say("delete", *words.split())

    assert (2, True) == (code, err.startswith("error: only pods can be deleted by name"))
    code, out, _ = say("delete", "pod", "node", "web")
    assert (0, f'pod "web-n1" deleted\n{deleted(there, "web").replace("web-n1", "node-n1")}') == (code, out)


def test_a_kind_that_does_not_exist_is_no_pod_for_sure(there: Path, say: Spoken) -> None:
    write(there / "web.yaml", manifest("web"))

    code, _, err = say("delete", "foo", "web")
    assert 1 == code
    assert (
        'no manifest defines pod/foo, and "foo" is not a kind of object either: only pods can be deleted by name' in err
    )
    code, _, err = say("delete", "foo/web")
    assert (2, 'error: only pods can be deleted by name, and "foo" is not a kind of object\n') == (code, err)
    code, _, err = say("delete", "pod", "foo", "web")
    assert (1, False) == (code, "kind of thing" in err)
    code, _, err = say("delete", "web", "foo")
    assert (1, False) == (code, "kind of thing" in err)
    code, _, err = say("delete", "foo")
    assert (1, False) == (code, "kind of thing" in err)
    assert ["web.yaml"] == list(files(there))


def test_file_with_other_pods_is_not_deleted_and_an_undefined_name_is_reported(there: Path, say: Spoken) -> None:
    write(there / "pair.yaml", manifest("web", "db"))

    code, _, err = say("delete", "pod/web", "pod/nobody")

    assert (1, ["pair.yaml"]) == (code, list(files(there)))
    assert f"no manifest defines pod/nobody (`trikubelet get pods` lists what runs)\n{there}/pair.yaml" in err
    assert (0, []) == (say("delete", "web", "db")[0], list(files(there)))


def test_hint_about_a_file_that_defines_more_can_be_followed(there: Path, say: Spoken) -> None:
    text = manifest("web") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\n"
    path = write(there / "greeter's file.yaml", text)

    code, _, err = say("delete", "pod", "web")

    assert (1, 1) == (code, err.count(f"{there}/greeter's file.yaml: "))
    hint = re.fullmatch(
        r"error: .*: also defines configmap/words \(`trikubelet (.+)` removes .+ edit that file\)\n", err
    )
    assert hint is not None
    assert ["delete", "-f", path] == shlex.split(hint[1])
    assert 0 == say(*shlex.split(hint[1]))[0]
    assert {} == files(there)


async def test_the_running_agent_says_where_its_manifests_are(
    tmp_path: Path, there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "web.yaml", manifest("web"))
    about = FakeAgent(configured=ConfigNote({}, {}, {}, "far", str(there)))
    async with served(FakeView(), tmp_path, about) as agent:
        words = ["apply", "-f", path, f"--socket={agent.socket_path}"]
        assert 0 == await trio.to_thread.run_sync(main, words)
        assert "pod/web-far created\n" == capsys.readouterr().out
        about.configured = ConfigNote({}, {}, {}, "far", path)
        assert 1 == await trio.to_thread.run_sync(main, words)
        assert f"error: {path} is one file: edit it" in capsys.readouterr().err
        about.configured = ConfigNote({}, {}, {}, "far")
        assert 1 == await trio.to_thread.run_sync(main, words)
        assert "error: this agent has no directory of manifests" in capsys.readouterr().err


def test_without_an_agent_the_directory_has_to_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == main(["apply", "-f", "x", f"--socket={tmp_path}/none"])
    assert capsys.readouterr().err.endswith("; or name the directory of manifests: --to\n")


def test_something_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert (2, 2) == (main(["delete"]), main(["delete", "pod", "a", "-f", "b"]))


@pytest.mark.parametrize("verb", ["apply", "delete"])
def test_a_directory_without_a_manifest_is_not_taken_for_the_one_that_was_meant(
    tmp_path: Path, say: Spoken, verb: str
) -> None:
    (tmp_path / "bare").mkdir()

    (tmp_path / "bare" / "web").write_text(manifest("web"))
    (tmp_path / "bare" / "sub").mkdir()

    code, out, err = say(verb, "-f", f"{tmp_path}/bare")
    assert (1, "") == (code, out)
    assert f"error: no manifest in {tmp_path}/bare (files that end with .yaml, .yml or .json count, and -R " in err
    assert (1, "") == say(verb, "-R", "-f", f"{tmp_path}/bare")[:2]


def labelled(name: str, app: str, namespace: str = "default") -> str:
    meta = f"{{name: {name}, namespace: {namespace}, labels: {{app: {app}}}}}"
    return f"apiVersion: v1\nkind: Pod\nmetadata: {meta}\nspec:\n  containers: [{{name: c, image: a}}]\n"


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (["far.yaml"], "pods --all"),
        ([], "pods --all -A"),
        (["api.yaml", "far.yaml"], "pod -l app=web"),
        (["api.yaml"], "pod -l app=web -A"),
        (["api.yaml", "web.yaml"], "po --all -n far"),
        (["api.yaml", "far.yaml", "web.yaml"], "pods --all --dry-run=client"),
    ],
)
def test_pods_are_deleted_by_selection(there: Path, say: Spoken, left: list[str], words: str) -> None:
    write(there / "web.yaml", labelled("web", "web"))
    write(there / "api.yaml", labelled("api", "api"))
    write(there / "far.yaml", labelled("far", "web", "far"))

    code, _, err = say("delete", *words.split())
    assert (0, "", left) == (code, err, list(files(there)))


def test_selection_that_finds_nothing_deletes_nothing_and_succeeds(there: Path, say: Spoken) -> None:
    write(there / "web.yaml", labelled("web", "web"))
    write(there / "bad.yaml", "kind: Pot\n")

    code, out, err = say("delete", "pods", "-l", "app=nope")
    warned = f"warning: {there}/bad.yaml: not searched for pods because of faults\n"
    assert (0, "", f"{warned}No resources found in default namespace.\n") == (code, out, err)


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("name cannot be provided when a selector is specified", "pod web --all"),
        ("name cannot be provided when a selector is specified", "pod web -l a=b"),
        ("flags --all and -l exclude each other", "pods --all -l a=b"),
        ("a pod cannot be deleted by its name across all namespaces", "pod web -A"),
        ("missing argument: write `trikubelet delete pods` with", "--all"),
        ("missing argument: give pods by name, by -l or --all, or files by -f", "pods --all -f x.yaml"),
        ("missing argument: give pods by name", "pods"),
        ("only pods can be deleted by name", "cm --all"),
    ],
)
def test_unclear_selection_is_refused(there: Path, say: Spoken, why: str, words: str) -> None:
    write(there / "web.yaml", labelled("web", "web"))

    code, _, err = say("delete", *words.split())
    assert (2, True, ["web.yaml"]) == (code, why in err, list(files(there)))
