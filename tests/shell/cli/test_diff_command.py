"""``diff -f FILE``: what ``apply`` would change, without values of Secrets."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from trikubelet.cli.main import main
from trikubelet.cli.manifest_diff import diff_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Spoken = Callable[..., tuple[int, str, str]]

POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  containers: [{{name: c, image: {0}}}]\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {{name: {0}}}\n{1}"


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


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_diff_shows_what_apply_would_change_and_changes_nothing(tmp_path: Path, there: Path, say: Spoken) -> None:
    file = there / "web.yaml"
    write(file, "# by hand\n" + POD.format("a"))

    code, out, err = say("diff", "-f", write(tmp_path / "mine.yaml", POD.format("b")))

    assert (1, "") == (code, err)
    assert [f"--- {file}\n", f"+++ {file}\n", "@@ -1,6 +1,5 @@\n", "-# by hand\n"] == out.splitlines(keepends=True)[:4]
    assert "-  containers: [{name: c, image: a}]\n+  containers: [{name: c, image: b}]\n" in out
    assert ["web.yaml"] == [path.name for path in there.iterdir()]


def test_diff_of_a_file_in_utf_16_shows_its_text() -> None:
    lines = diff_lines(POD.format("a").encode(), POD.format("b").encode("utf-16"), ("old", "new"))

    assert ["-  containers: [{name: c, image: a}]\n", "+  containers: [{name: c, image: b}]\n"] == lines[-2:]


def test_diff_of_the_same_file_is_empty(tmp_path: Path, there: Path, say: Spoken) -> None:
    write(there / "web.yaml", POD.format("a"))

    assert (0, "", "") == say("diff", "-f", write(tmp_path / "web.yaml", POD.format("a")))


def test_diff_of_a_new_file_shows_all_of_it(tmp_path: Path, there: Path, say: Spoken) -> None:
    code, out, _ = say("diff", "-f", write(tmp_path / "web.yaml", POD.format("a").rstrip("\n")))

    assert (1, True) == (code, out.startswith(f"--- /dev/null\n+++ {there}/web.yaml\n"))
    assert out.endswith("image: a}]\n\\ No newline at end of file\n")


@pytest.mark.parametrize("text", ["kind: Pot\n", None])
def test_exit_code_after_an_error_is_larger_than_one(tmp_path: Path, say: Spoken, text: str | None) -> None:
    if text is not None:
        write(tmp_path / "x.yaml", text)

    code, out, err = say("diff", "-f", f"{tmp_path}/x.yaml")
    assert (3, "", True) == (code, out, err.startswith(f"error: {tmp_path}/x.yaml"))


def test_what_apply_refuses_is_an_error_of_diff(tmp_path: Path, there: Path, say: Spoken) -> None:
    write(there / "pair.yaml", POD.format("a") + "---\n" + SECRET.format("top", "stringData: {pw: hunter2}\n"))

    code, out, err = say("diff", "-f", write(tmp_path / "web.yaml", POD.format("b")))
    assert (3, "", True) == (code, out, f"{there}/pair.yaml already, which also defines secret/top" in err)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("shown", "before", "after"),
    [
        (
            ["-  pw: '*** (before)'", "+  pw: '*** (after)'"],
            SECRET.format("top", "stringData: {pw: hunter2, same: hunter2}\n"),
            SECRET.format("top", "stringData: {pw: hunter3, same: hunter2}\n"),
        ),
        (
            ["-  pw: '*** (before)'", "+  new: '***'", "+  pw: '*** (after)'"],
            SECRET.format("top", f"data:\n  pw: {encoded('hunter2')}\n"),
            SECRET.format("top", f"data:\n  pw: {encoded('hunter3')}\n  new: {encoded('hunter2')}\n"),
        ),
        (
            ["-    pw: '*** (before)'", "+    pw: '*** (after)'"],
            '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Secret", '
            '"metadata": {"name": "top"}, "stringData": {"pw": "hunter2"}}]}',
            '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Secret", '
            '"metadata": {"name": "top"}, "stringData": {"pw": "hunter3"}}]}',
        ),
        (["-# hunter2", "+# hunter3"], "# hunter2\n" + POD.format("a"), "# hunter3\n" + POD.format("a")),
        (
            [],
            "# hunter2\n" + SECRET.format("top", "stringData: {pw: hunter2}\n"),
            "# hunter3\n" + SECRET.format("top", 'stringData: {pw: "hunter2"}\n'),
        ),
    ],
)
def test_values_of_secrets_are_masked_wherever_they_stand(shown: list[str], before: str, after: str) -> None:
    lines = diff_lines(before.encode(), after.encode(), ("a", "b"))

    assert shown == [line.rstrip("\n") for line in lines[2:] if line[0] in "+-"]
    assert "kind: Pod" in before or not any(
        value in line for line in lines for value in ("hunter", encoded("hunter2"), encoded("hunter3"))
    )


def test_only_a_newline_ends_a_line() -> None:
    text = "# a\u2028b\x85c\n" + POD.format("a")

    lines = diff_lines(text.encode(), text.replace("name: web", "name: api").encode(), ("a", "b"))
    assert " # a\u2028b\x85c\n" in lines
    assert 7 == len([line for line in lines[3:] if line[0] in " +-"])


def test_secret_that_only_one_version_has_is_masked() -> None:
    secret = SECRET.format("top", "stringData: {pw: hunter2}\n")
    last = "metadata:\n  name: top\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: hunter2\n"
    annotated = f"apiVersion: v1\nkind: Secret\n{last}"
    pod = POD.format("a")

    for before, after in ((pod, f"{pod}---\n{secret}"), (secret, pod), (pod, annotated), (annotated, secret)):
        lines = "".join(diff_lines(before.encode(), after.encode(), ("a", "b")))
        assert "***" in lines
        assert "hunter2" not in lines
