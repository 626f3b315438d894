"""The manifests that ``-f`` names: which files of a directory count, and what comes from a URL."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from trikubelet.cli import given_manifests as module
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.given_manifests import given_manifests
from trikubelet.model.bounds import Bounds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: {0}}}\nspec:\n  containers: [{{name: c, image: a}}]\n"


def names(*paths: object, recursive: bool = False) -> list[str]:
    found = given_manifests([str(path) for path in paths], "n1", recursive=recursive)
    return [pod.metadata.name for one in found for pod in one.loaded.pods]


def test_of_a_directory_only_yaml_and_json_count(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "c.json", ".hidden.yaml", "d.yaml~", "e.yaml.bak"):
        (tmp_path / name).write_text(POD.format(name.strip(".~")[0]))
    (tmp_path / "README.md").write_text("no manifest")
    (tmp_path / "index.html").write_text("<html>")

    assert ["a-n1", "b-n1", "c-n1"] == names(tmp_path)


def test_subdirectories_count_only_if_asked_for_and_links_to_them_never(tmp_path: Path) -> None:
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "sub" / "deep" / "b.yaml").write_text(POD.format("b"))
    (tmp_path / "sub" / "round").symlink_to(tmp_path)
    (tmp_path / "a.yaml").write_text(POD.format("a"))

    assert ["a-n1"] == names(tmp_path)
    assert ["a-n1", "b-n1"] == names(tmp_path, recursive=True)


def test_file_that_is_named_counts_whatever_it_is_called_and_once(tmp_path: Path) -> None:
    for name in ("web", "api.yaml"):
        (tmp_path / name).write_text(POD.format(name[:3]))

    assert ["web-n1", "api-n1"] == names(tmp_path / "web", tmp_path, tmp_path / "web")
    assert ["api-n1"] == names(tmp_path / "api.yaml", tmp_path)


def test_directory_with_very_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILES_MAX", 3)
    for number in range(4):
        (tmp_path / f"{number}.yaml").write_text(POD.format(f"w{number}"))

    with pytest.raises(CommandFailed, match=r"more than 3 manifests in .*: is it the right directory"):
        names(tmp_path)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"#" * (Bounds().manifest_bytes_max + 1) if self.path == "/large" else POD.format("far").encode()
        self.send_response(404 if self.path == "/none" else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the test's output quiet."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_manifest_is_fetched_from_a_url(url: str) -> None:
    assert ["far-n1"] == names(f"http://{url}/web.yaml")


@pytest.mark.parametrize(("why", "path"), [("the server answers 404", "none"), ("larger than", "large")])
def test_url_without_a_usable_manifest_is_an_error_without_the_password(url: str, why: str, path: str) -> None:
    with pytest.raises(CommandFailed) as error:
        names(f"http://me:hunter2@{url}/{path}")

    assert f"http://{url}/{path}: cannot be fetched: " in str(error.value)
    assert why in str(error.value)
    assert "hunter2" not in str(error.value)


def test_url_that_nothing_serves_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(CommandFailed, match=r"http://127\.0\.0\.1:1/x: cannot be fetched: "):
        names("http://127.0.0.1:1/x")


def test_url_that_does_not_answer_is_given_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FETCH_SECONDS_MAX", 0.0)
    with pytest.raises(CommandFailed, match="cannot be fetched within 0 s"):
        names(f"http://{url}/web.yaml")
