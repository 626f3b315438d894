"""``apply``, ``delete`` and ``rollback`` lose no version of a manifest, above all none that was written by hand."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trikubelet.cli.applied_record import HASHES_MAX, RECORD_NAME, AppliedRecord, read_record
from trikubelet.cli.main import main
from trikubelet.core.kept_copies import APPLIED_COPIES_MAX, COPIES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    Spoken = Callable[..., tuple[int, str, str]]

BY_HAND = "# my own words\n"


def manifest(name: str, image: str = "a") -> str:
    pod = f"metadata: {{name: {name}}}\nspec:\n  containers: [{{name: c, image: {image}}}]\n"
    return f"apiVersion: v1\nkind: Pod\n{pod}"


@pytest.fixture
def there(tmp_path: Path) -> Path:
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


@pytest.fixture
def apply(tmp_path: Path, say: Spoken) -> Spoken:
    def applied(image: str, name: str = "web") -> tuple[int, str, str]:
        (tmp_path / f"{name}.yaml").write_text(manifest(name, image))
        return say("apply", "-f", f"{tmp_path}/{name}.yaml")

    return applied


def written_by_hand(there: Path, image: str = "hand") -> str:
    (there / "web.yaml").write_text(BY_HAND + manifest("web", image))
    (there / "web.yaml").chmod(0o640)
    return BY_HAND + manifest("web", image)


def kept(there: Path) -> dict[str, str]:
    """The kept versions."""
    return {path.name: path.read_text() for path in sorted(there.iterdir()) if ".deleted" in path.name}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_deleted_file_is_kept_with_its_mode_and_named(there: Path, say: Spoken) -> None:
    text = written_by_hand(there)

    said = f'pod "web-n1" deleted (removed {there}/web.yaml; a copy is {there}/.web.yaml.deleted)\n'
    assert (0, said, "") == say("delete", "pod", "web")
    assert {".web.yaml.deleted": text} == kept(there)
    assert 0o640 == mode(there / ".web.yaml.deleted")


def test_replaced_file_is_kept_and_named_only_if_apply_did_not_write_it(there: Path, apply: Spoken) -> None:
    text = written_by_hand(there)

    why = "the file that was there, which apply did not write, is kept as"
    assert (0, f"pod/web-n1 configured ({why} {there}/.web.yaml.deleted)\n", "") == apply("b")
    assert (0, "pod/web-n1 configured\n", "") == apply("c")
    assert {".web.yaml.deleted": text, ".web.yaml.deleted.2": manifest("web", "b")} == kept(there)
    assert 0o640 == mode(there / ".web.yaml.deleted")


def test_unchanged_manifest_still_counts_as_written_by_hand(there: Path, apply: Spoken) -> None:
    (there / "web.yaml").write_text(manifest("web", "a"))

    assert (0, "pod/web-n1 unchanged\n", "") == apply("a")
    assert not (there / RECORD_NAME).exists()
    assert "which apply did not write" in apply("b")[1]


@pytest.mark.parametrize("content", [b"", b"{", b'{"files": 3}', b"\xff\xfe", b"[" * 100_000, None])
def test_without_a_readable_record_everything_counts_as_written_by_hand(
    there: Path, apply: Spoken, content: bytes | None
) -> None:
    apply("a")
    (there / RECORD_NAME).unlink()
    if content is not None:
        (there / RECORD_NAME).write_bytes(content)

    assert "which apply did not write" in apply("b")[1]
    assert (0, "pod/web-n1 configured\n", "") == apply("c")


def test_many_applies_never_push_out_the_only_version_written_by_hand(there: Path, apply: Spoken) -> None:
    text = written_by_hand(there)

    for number in range(2 * COPIES_MAX):
        apply(f"i{number}")

    assert COPIES_MAX == len(kept(there))
    assert text == kept(there)[".web.yaml.deleted"]
    assert manifest("web", "i8") == kept(there)[".web.yaml.deleted.10"]


def test_a_version_written_by_hand_that_is_removed_is_named(there: Path, apply: Spoken) -> None:
    for number in range(COPIES_MAX):
        written_by_hand(there, f"hand{number}")
        assert (0, "") == apply(f"i{number}")[::2]
    written_by_hand(there, "more")

    code, _, told = apply("last")

    oldest = there / ".web.yaml.deleted"
    assert 0 == code
    assert told.startswith(f"warning: {oldest}: removed the oldest version that was written by hand: only 5 ")
    assert (COPIES_MAX, False) == (len(kept(there)), oldest.exists())


def test_copies_of_manifests_with_unique_names_are_bounded(
    there: Path, say: Spoken, apply: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trikubelet.cli.manifest_steps.APPLIED_COPIES_MAX", 3)
    text = written_by_hand(there)
    say("delete", "pod", "web")
    for number in range(6):
        apply("a", f"job{number}")
        say("delete", "pod", f"job{number}")

    assert [f".job{number}.yaml.deleted" for number in (4, 5)] + [".web.yaml.deleted"] == list(kept(there))
    assert text == kept(there)[".web.yaml.deleted"]
    assert APPLIED_COPIES_MAX > COPIES_MAX


def test_newest_version_of_a_manifest_outlives_older_versions_of_others_and_removals_are_named(
    there: Path, apply: Spoken, say: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trikubelet.cli.manifest_steps.APPLIED_COPIES_MAX", 3)
    apply("a", "precious")
    say("delete", "pod", "precious")
    for number in range(4):
        apply(f"i{number}", "web")

    told = apply("i0", "db")[2] + apply("i1", "db")[2]

    assert [".db.yaml.deleted", ".precious.yaml.deleted", ".web.yaml.deleted.3"] == sorted(kept(there))
    gone = f"{there}/.web.yaml.deleted.2"
    assert f"warning: {gone}: removed: only 3 versions of manifests are kept in a directory\n" == told


def test_record_forgets_manifests_that_are_gone_and_old_contents() -> None:
    record = AppliedRecord({"gone.yaml": ("x",), "kept.yaml": ("y",)})
    for number in range(20):
        record = record.with_applied({"web.yaml": str(number).encode()}, [".kept.yaml.deleted"])

    assert ["kept.yaml", "web.yaml"] == sorted(record.files)
    assert HASHES_MAX == len(record.files["web.yaml"])
    assert record.wrote("web.yaml", b"19")
    assert not record.wrote("web.yaml", b"0")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["delete", "pod", "web"],
            'pod "web-n1" deleted (dry run: would remove T/web.yaml and keep a copy as T/.web.yaml.deleted)',
        ),
        (
            ["apply", "-f", "M"],
            "pod/web-n1 configured (dry run: the file that is there, which apply did not write, would be kept as "
            "T/.web.yaml.deleted)",
        ),
    ],
)
def test_dry_run_changes_nothing(tmp_path: Path, there: Path, say: Spoken, words: list[str], said: str) -> None:
    text = written_by_hand(there)
    (tmp_path / "mine.yaml").write_text(manifest("web", "b"))
    words = [word.replace("M", f"{tmp_path}/mine.yaml") for word in words]

    assert (0, said.replace("T/", f"{there}/") + "\n", "") == say(*words, "--dry-run=client")
    assert {"web.yaml": text} == {path.name: path.read_text() for path in there.iterdir()}
    code, _, err = say(*words, "--dry-run=server")
    assert (2, True) == (code, "there is no API server that would check the manifests (use client)" in err)
    assert 2 == say(*words, "--dry-run=x")[0]
    assert (0, True) == (say(*words, "--dry-run=none")[0], bool(kept(there)))


def test_dry_run_makes_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "web.yaml").write_text(manifest("web"))

    assert 0 == main(["apply", "-f", f"{tmp_path}/web.yaml", f"--to={tmp_path}/new", "--dry-run=client"])
    assert " created (dry run)\n" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()


def test_rollback_brings_back_a_deleted_file(there: Path, say: Spoken) -> None:
    text = written_by_hand(there)
    say("delete", "pod", "web")

    said = f"pod/web-n1 rolled back ({there}/web.yaml has the content of {there}/.web.yaml.deleted)\n"
    assert (0, said, "") == say("rollback", "web-n1")
    assert (text, 0o640, {}) == ((there / "web.yaml").read_text(), mode(there / "web.yaml"), kept(there))


def test_rollback_brings_back_the_version_before_and_a_second_one_returns(
    there: Path, say: Spoken, apply: Spoken
) -> None:
    text = written_by_hand(there)
    apply("b")

    code, out, _ = say("rollback", "pod/web")
    assert (0, text) == (code, (there / "web.yaml").read_text())
    assert f"; the version before is {there}/.web.yaml.deleted.2)" in out
    assert 0o640 == mode(there / "web.yaml")
    assert 0 == say("rollback", "web")[0]
    assert manifest("web", "b") == (there / "web.yaml").read_text()


def test_rollback_passes_over_copies_that_equal_the_present_file(there: Path, say: Spoken, apply: Spoken) -> None:
    for image in ("a", "b", "a"):
        apply(image)
    (there / "web.yaml").write_text(manifest("web", "b"))

    assert 0 == say("rollback", "web")[0]
    assert manifest("web", "a") == (there / "web.yaml").read_text()


def test_rollback_refuses_to_remove_other_pods_of_the_file(there: Path, say: Spoken, apply: Spoken) -> None:
    apply("a")
    (there / "web.yaml").write_text(f"{manifest('web', 'b')}---\n{manifest('db')}")

    code, _, err = say("rollback", "web")
    assert (1, True) == (code, "no earlier version" in err)
    (there / ".web.yaml.deleted").write_text(manifest("web"))
    code, _, err = say("rollback", "web")
    assert (1, True) == (code, f"{there}/web.yaml also defines pod/db-n1" in err)
    assert [".web.yaml.deleted"] == list(kept(there))


def test_rollback_without_a_version_says_why(there: Path, say: Spoken) -> None:
    written_by_hand(there)

    for pod, why in (("web", "no earlier version of its manifest is kept"), ("nope", "neither a manifest nor a kept")):
        code, _, err = say("rollback", pod)
        assert (1, True) == (code, err.startswith(f"error: pod/{pod}: {why}"))


def test_rollback_passes_over_versions_with_faults(there: Path, say: Spoken) -> None:
    (there / ".web.yaml.deleted").write_text(manifest("web", "good"))
    (there / ".web.yaml.deleted.2").write_text(manifest("web") + "---\nkind: Pot\n")
    (there / ".web.yaml.deleted.3").symlink_to("/nowhere")

    assert 0 == say("rollback", "web")[0]
    assert manifest("web", "good") == (there / "web.yaml").read_text()


def test_rollback_dry_run_changes_nothing(there: Path, say: Spoken, apply: Spoken) -> None:
    for image in ("a", "b"):
        apply(image)

    said = f"pod/web-n1 rolled back (dry run: {there}/web.yaml would have the content of {there}/.web.yaml.deleted)\n"
    assert (0, said, "") == say("rollback", "web", "--dry-run=client")
    assert manifest("web", "b") == (there / "web.yaml").read_text()


def test_without_hard_links_the_replaced_file_is_copied_with_its_mode(
    there: Path, apply: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    text = written_by_hand(there)

    assert 0 == apply("b")[0]
    assert ({".web.yaml.deleted": text}, 0o640) == (kept(there), mode(there / ".web.yaml.deleted"))


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("failing", ["z.yaml", RECORD_NAME])
def test_failed_apply_leaves_every_file_and_mode_as_it_was(
    tmp_path: Path, there: Path, say: Spoken, monkeypatch: pytest.MonkeyPatch, failing: str, links: bool
) -> None:
    text = written_by_hand(there)
    (tmp_path / "mine").mkdir()
    for name in ("new", "web", "z"):
        (tmp_path / "mine" / f"{name}.yaml").write_text(manifest(name, "b"))
    rename, link = Path.replace, os.link

    def replace(path: Path, target: Path) -> Path:
        if target.name == failing:
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        return rename(path, target)

    def linked(*words: object, **more: object) -> None:
        if not links:
            raise OSError(errno.EPERM, "Operation not permitted")
        link(*words, **more)  # type: ignore[arg-type]  # the same words

    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(os, "link", linked)
    code, out, err = say("apply", "-f", f"{tmp_path}/mine")

    assert (1, "", True) == (code, out, err.endswith("No space left on device\n"))
    assert {"web.yaml": text} == {path.name: path.read_text() for path in there.iterdir()}
    assert 0o640 == mode(there / "web.yaml")


def test_failed_delete_leaves_every_file_as_it_was(there: Path, say: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    text = written_by_hand(there)
    (there / "z.yaml").write_text(manifest("z"))
    rename = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if target.name == ".z.yaml.deleted":
            raise OSError(errno.EACCES, "Permission denied", str(target))
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", replace)

    assert 1 == say("delete", "pod", "web", "z")[0]
    assert {"web.yaml": text, "z.yaml": manifest("z")} == {path.name: path.read_text() for path in there.iterdir()}
    assert 0o640 == mode(there / "web.yaml")


def test_deleted_link_is_kept_as_a_link(tmp_path: Path, there: Path, say: Spoken) -> None:
    (tmp_path / "real.yaml").write_text(manifest("web"))
    (there / "web.yaml").symlink_to(tmp_path / "real.yaml")

    assert 0 == say("delete", "pod", "web")[0]
    assert f"{tmp_path}/real.yaml" == os.readlink(there / ".web.yaml.deleted")
    assert 0 == say("rollback", "web")[0]
    assert f"{tmp_path}/real.yaml" == os.readlink(there / "web.yaml")


def test_record_is_read_by_the_name_of_the_manifest(there: Path, apply: Spoken) -> None:
    apply("a")

    assert ["web.yaml"] == list(read_record(there).files)
    assert 0o600 == mode(there / RECORD_NAME)
