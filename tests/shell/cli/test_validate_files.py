"""``trikubelet validate`` on real files: every fault in one go, and warnings that fail nothing."""

import io
import os
import sys
from pathlib import Path

import pytest

from trikubelet.cli.validate import validate_files

EXAMPLES = Path(__file__).parents[3] / "examples" / "manifests"
GOOD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {}\nspec:\n  containers:\n  - {{name: main, image: a}}\n"


def validate(*paths: Path | str) -> tuple[list[str], int]:
    problems, code, _ = validate_files([str(path) for path in paths], "node")
    return problems, code


def test_a_valid_file_is_a_line_with_what_is_in_it(tmp_path: Path) -> None:
    good, bad, warned, bare = (tmp_path / f"{name}.yaml" for name in ("good", "bad", "warned", "bare"))
    config = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}}}\n"
    good.write_text(GOOD.format("web") + config.format("a") + config.format("b"))
    bad.write_text(GOOD.format("Web"))
    warned.write_text(GOOD.format("warned") + "  securityContext: {windowsOptions: {runAsUserName: x}}\n")
    bare.write_text("# nothing yet\n")

    found = validate_files([str(tmp_path)], "node")

    assert [f"{good}: valid: 1 pod, 2 ConfigMaps", f"{warned}: valid: 1 pod"] == found.valid
    assert [str(bad), str(bare), str(warned)] == sorted(line.split(":")[0] for line in found.problems)


def test_for_the_embedded_runtime_what_it_refuses_is_a_fault_and_what_it_does_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(
        GOOD.format("web").replace("image: a", "image: a, resources: {limits: {memory: 1Gi}}") + "  hostPID: true\n"
    )

    assert [] == validate_files([str(path)], "node").problems
    found = validate_files([str(path)], "node", embedded=True)
    assert (1, []) == (found.exit_code, found.valid)
    image, pid, limit = found.problems
    assert image.startswith(f"{path}:7: spec.containers[0].image: rejected by the embedded runtime: it has no images")
    assert pid.startswith(f"{path}:8: spec.hostPID: rejected by the embedded runtime: every container has processes of")
    assert limit.startswith(f"{path}:7: spec.containers[0].resources.limits[memory]: warning: it is not enforced")


def test_of_two_files_with_the_same_pod_the_second_is_not_valid(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    for file in (one, two):
        file.write_text(GOOD.format("web"))

    assert [f"{one}: valid: 1 pod"] == validate_files([str(one), str(two)], "node").valid


def test_every_fault_of_every_file_is_a_line_with_its_place(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(GOOD.format("Web").replace("image: a", "imag: a"))
    two.write_text("kind: [")

    lines, code = validate(one, two)

    assert 1 == code
    assert [
        (f"{one}:4", "metadata.name"),
        (f"{one}:7", "spec.containers[0].imag"),
        (f"{one}:7", "spec.containers[0].image"),
        (f"{two}:1", "this is not YAML"),
    ] == [tuple(line.split(": ")[:2]) for line in lines]


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_a_fault_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "pipe" if kind == "pipe" else Path("/dev/zero")
    if kind == "pipe":
        os.mkfifo(path)

    [line], code = validate(path)

    expected = "cannot be read: it is a pipe without a writer" if kind == "pipe" else "larger than 4194304 bytes"
    assert (1, True) == (code, line.startswith(f"{path}: {expected}"))


def test_the_examples_have_no_fault() -> None:
    lines, code = validate(*sorted(EXAMPLES.glob("*/")))

    assert 0 == code
    assert all(": warning: " in line for line in lines)


def test_a_field_without_effect_is_a_warning_and_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(GOOD.format("web") + "  securityContext: {windowsOptions: {runAsUserName: x}}\n")

    lines, code = validate(file)

    assert 0 == code
    assert [f"{file}:8: spec.securityContext.windowsOptions"] == [line.partition(": warning: ")[0] for line in lines]


def test_objects_are_validated_beside_pods_and_have_their_names_to_themselves(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n---\n" + GOOD.format("web"))
    two.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n---\n"
        "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\ntype: kubernetes.io/tls\ndata: {tls.crt: '%'}\n"
    )

    assert ([], 0) == validate(one)
    lines, code = validate(one, two)
    assert 1 == code
    assert [
        f"{two}:3: metadata.name",
        f"{two}:9: data[tls.crt]",
        f"{two}:9: data[tls.key]",
    ] == sorted(
        line.rpartition(": Invalid")[0] or line.rpartition(": Required")[0] or line.partition(": Dup")[0]
        for line in lines
    )


def test_one_name_in_two_files_is_a_fault_of_the_second(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(GOOD.format("web"))
    two.write_text(f"# a copy\n{GOOD.format('web')}")

    duplicate = f'Duplicate value: "web": {one}:4 has one of that name already (rename one of the two)'
    assert ([f"{two}:5: metadata.name: {duplicate}"], 1) == validate(one, two)


def test_one_uid_in_two_files_is_a_fault_of_the_second(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    for file, name in ((one, "a"), (two, "b")):
        file.write_text(GOOD.format(f"{name}\n  uid: u"))

    duplicate = f'Duplicate value: "u": {one}:5 has one of that UID already (leave it out: each pod is given one)'
    assert ([f"{two}:5: metadata.uid: {duplicate}"], 1) == validate(one, two)


def test_links_to_nothing_in_a_directory_are_faults_as_they_are_to_an_agent(tmp_path: Path) -> None:
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    (tmp_path / "self.yaml").symlink_to("self.yaml")

    lines, code = validate(tmp_path)

    assert 1 == code
    assert [
        f"{tmp_path}/gone.yaml: a link to nothing",
        f"{tmp_path}/self.yaml: a link that leads round in a circle",
    ] == [line.partition(" (")[0] for line in lines]


@pytest.mark.parametrize("text", ["kind: PodList\napiVersion: v1\nitems: []\n", "# later\n", "---\n"])
def test_a_file_without_a_pod_is_worth_a_warning(tmp_path: Path, text: str) -> None:
    file = tmp_path / "none.yaml"
    file.write_text(text)

    assert ([f"{file}: warning: no pod in it"], 0) == validate(file)


def test_a_null_is_a_fault_and_not_only_no_pod(tmp_path: Path) -> None:
    file = tmp_path / "none.yaml"
    file.write_text("# what a program prints that found nothing\nnull\n")

    told = 'null where a Pod should stand (begin with "apiVersion: v1")'
    assert ([f"{file}:2: {told}"], 1) == validate(file)


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(GOOD.format("web"))

    assert ([], 0) == validate(file, tmp_path, tmp_path / "." / "web.yaml")


def test_a_directory_stands_for_the_manifests_an_agent_would_find(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    for name in (".hidden", "web.yaml~", "web.yaml.bak", "deeper/web.yaml"):
        (tmp_path / name).write_text("nonsense")
    (tmp_path / "b").write_text("nonsense")

    lines, code = validate(tmp_path)

    assert 1 == code
    assert [str(tmp_path / "b")] == [line.partition(":")[0] for line in lines]


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(GOOD.format("Web").encode())

    monkeypatch.setattr(sys, "stdin", Stdin)

    lines, code = validate("-")

    assert 1 == code
    assert ["<stdin>:4: metadata.name"] == [line.partition(": Inv")[0] for line in lines]


def test_what_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(5 * 1024 * 1024)

    lines, code = validate(tmp_path / "missing", huge)

    assert 1 == code
    assert f"{tmp_path / 'missing'}: cannot be read: No such file or directory" == lines[0]
    assert lines[1].startswith(f"{huge}: larger than 4194304 bytes")


def test_a_directory_without_a_manifest_is_worth_a_warning(tmp_path: Path) -> None:
    (tmp_path / "web.yaml~").write_text(GOOD.format("web"))

    assert ([f"{tmp_path}: warning: no manifest in it"], 0) == validate(tmp_path, tmp_path)


def test_a_directory_beside_it_does_not_hide_it(tmp_path: Path) -> None:
    bare, full = tmp_path / "bare", tmp_path / "full"
    for made in (bare, full):
        made.mkdir()
    (full / "web.yaml").write_text("kind: [")

    lines, code = validate(bare, full)

    assert 1 == code
    assert [f"{full}/web.yaml:1", str(bare)] == [line.partition(": ")[0] for line in lines]
