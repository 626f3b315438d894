"""What volumes made of data hold: keys, items, modes, what may be missing, and who may read a token."""

import base64
from typing import Any

import pytest
from msgspec.structs import replace

from core.podkit import container, pod
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.allowance import MIB, Allowance, TooLarge
from trikubelet.core.containers.downward import PodFields
from trikubelet.core.containers.volume_files import (
    Contents,
    VolumeFile,
    clean_path,
    config_map_files,
    downward_files,
    owned,
    secret_file,
    secret_files,
    sources_of,
)
from trikubelet.model import k8s

META = k8s.ObjectMeta(name="o")
MAP = k8s.ConfigMap(metadata=META, data={"a": "é", "b": "B"}, binary_data={"c": base64.b64encode(b"\xff").decode()})
SECRET = k8s.Secret(metadata=META, data={"a": base64.b64encode(b"hidden").decode()})
FACTS = NodeFacts("n", allocatable={"cpu": 4000, "memory": 1 << 30})


def config(*items: k8s.KeyToPath, optional: bool | None = None) -> k8s.ConfigMapProjection:
    return k8s.ConfigMapProjection(name="o", items=items, optional=optional)


def item(key: str, path: str, mode: int | None = None) -> k8s.KeyToPath:
    return k8s.KeyToPath(key=key, path=path, mode=mode)


def test_every_key_is_a_file_whatever_its_data_is() -> None:
    assert {
        "a": VolumeFile("é".encode(), 0o644),
        "b": VolumeFile(b"B", 0o644),
        "c": VolumeFile(b"\xff", 0o644),
    } == config_map_files(pod(), config(), MAP, 0o644, Contents())
    assert {"a": VolumeFile(b"hidden", 0o400)} == secret_files(
        pod(), k8s.SecretProjection(name="o"), SECRET, 0o400, Contents()
    )


def test_items_name_the_keys_wanted_with_their_paths_and_modes() -> None:
    wanted = config(item("a", "dir/a"), item("b", "x", 0o600))

    assert {"dir/a": VolumeFile("é".encode(), 0o644), "x": VolumeFile(b"B", 0o600)} == config_map_files(
        pod(), wanted, MAP, 0o644, Contents()
    )


def test_what_is_missing_is_reported_in_upstreams_words() -> None:
    with pytest.raises(ValueError, match=r'^configmap "o" not found$'):
        config_map_files(pod(), config(), None, 0o644, Contents())
    with pytest.raises(ValueError, match=r'^secret "o" not found$'):
        secret_files(pod(), k8s.SecretProjection(name="o"), None, 0o644, Contents())
    with pytest.raises(ValueError, match=r"^configmap references non-existent config key: z$"):
        config_map_files(pod(), config(item("z", "z")), MAP, 0o644, Contents())
    with pytest.raises(ValueError, match=r"^references non-existent secret key: z$"):
        secret_files(pod(), k8s.SecretProjection(name="o", items=(item("z", "z"),)), SECRET, 0o644, Contents())


def test_what_is_optional_may_be_missing() -> None:
    assert {} == config_map_files(pod(), config(optional=True), None, 0o644, Contents())
    assert {"b"} == config_map_files(
        pod(), config(item("z", "z"), item("b", "b"), optional=True), MAP, 0o644, Contents()
    ).keys()


def test_a_secret_that_is_no_base64_is_refused() -> None:
    with pytest.raises(ValueError, match="not base64"):
        secret_files(
            pod(), k8s.SecretProjection(name="o"), k8s.Secret(metadata=META, data={"a": "%"}), 0o644, Contents()
        )


def big(name: str) -> k8s.Secret:
    text = base64.b64encode(bytes(MIB)).decode()
    return k8s.Secret(metadata=k8s.ObjectMeta(name=name), data={"big": text, "small": "dg==", "broken": "%"})


def test_of_an_object_only_the_keys_that_are_wanted_are_decoded_and_each_once() -> None:
    held, contents = big("o"), Contents()
    wanted = [k8s.SecretProjection(name="o", items=(item("small", f"f{n}"), item("big", f"b{n}"))) for n in range(70)]
    made = [secret_files(pod(), source, held, 0o644, contents) for source in wanted]

    assert b"v" == made[69]["f69"].content
    assert 1 == len({id(files[f"b{n}"].content) for n, files in enumerate(made)})
    held_map, both = k8s.ConfigMap(metadata=META, data={"a": "x"}, binary_data={"a": "eQ==", "b": "%"}), Contents()
    one = [config_map_files(pod(), config(item("a", "a")), held_map, 0o644, both)["a"].content for _ in range(2)]
    assert b"y" == one[0]
    assert one[0] is one[1]


def test_what_was_decoded_counts_for_sources_that_fail_in_the_end_too() -> None:
    contents, source = Contents(), k8s.SecretProjection(name="o", items=(item("big", "b"), item("z", "z")))
    for n in range(64):
        with pytest.raises(ValueError, match="references non-existent secret key: z"):
            secret_files(pod(), source, big(str(n)), 0o644, contents)
    with pytest.raises(TooLarge, match="big: with it the values that the volume's sources name are larger than"):
        secret_files(pod(), source, big("last"), 0o644, contents)


def test_facts_about_the_pod_are_files() -> None:
    limits = k8s.ResourceRequirements(limits={"cpu": "250m"})
    it = pod(container("c", resources=limits), meta={"labels": {"b": "2", "a": "1"}})
    files = (
        k8s.DownwardAPIVolumeFile(path="l", field_ref=k8s.ObjectFieldSelector(field_path="metadata.labels")),
        k8s.DownwardAPIVolumeFile(
            path="cpu",
            mode=0o400,
            resource_field_ref=k8s.ResourceFieldSelector(container_name="c", resource="limits.cpu", divisor="1m"),
        ),
    )

    assert {"l": VolumeFile(b'a="1"\nb="2"', 0o644), "cpu": VolumeFile(b"250", 0o400)} == downward_files(
        PodFields(it, (), FACTS), files, 0o644, Allowance(20, "files")
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"field_ref": k8s.ObjectFieldSelector(field_path="spec.nothing")}, "unsupported fieldPath: spec.nothing"),
        ({"resource_field_ref": k8s.ResourceFieldSelector(container_name="x", resource="limits.cpu")}, "x not found"),
        ({}, "neither"),
    ],
)
def test_a_fact_that_there_is_not_is_refused(fields: dict[str, Any], message: str) -> None:
    wanted = k8s.DownwardAPIVolumeFile(path="f", **fields)
    with pytest.raises(ValueError, match=message):
        downward_files(PodFields(pod("c"), (), FACTS), [wanted], 0o644, Allowance(9, "files"))


def user(uid: int | None) -> k8s.SecurityContext:
    return k8s.SecurityContext(run_as_user=uid)


def debugged(it: k8s.Pod, context: k8s.SecurityContext | None) -> k8s.Pod:
    """With an ephemeral container beside the others."""
    beside = k8s.EphemeralContainer(name="look", image="debug:1", security_context=context)
    return replace(it, spec=replace(it.spec, ephemeral_containers=(beside,)))


@pytest.mark.parametrize(
    ("it", "mode", "owner"),
    [
        (pod("a"), 0o644, None),
        (pod("a", security_context=k8s.PodSecurityContext(fs_group=7)), 0o600, None),
        (pod("a", "b", security_context=k8s.PodSecurityContext(run_as_user=5)), 0o600, 5),
        (pod(container("a", security_context=user(5)), container("b", security_context=user(5))), 0o600, 5),
        (pod(container("a", security_context=user(5)), "b"), 0o644, None),
        (pod("a", init=(container("i", security_context=user(0)),)), 0o644, None),
        (pod(container("a", security_context=user(0))), 0o600, 0),
        (debugged(pod(container("a", security_context=user(5))), user(5)), 0o600, 5),
        (debugged(pod(container("a", security_context=user(5))), user(6)), 0o644, None),
        (debugged(pod(container("a", security_context=user(5))), None), 0o644, None),
    ],
)
def test_a_token_is_for_the_one_user_or_the_group_where_there_is_one(it: k8s.Pod, mode: int, owner: int | None) -> None:
    assert VolumeFile(b"t", mode, owner) == secret_file(it, b"t", 0o644)


FILE, TOKEN = VolumeFile(b"x", 0o640), VolumeFile(b"t", 0o644)
ITEMS = (k8s.KeyToPath(key="a", path="a", user=7), k8s.KeyToPath(key="b", path="b"))


@pytest.mark.parametrize("default_user", [None, 5])
@pytest.mark.parametrize(
    "source",
    [
        pytest.param(k8s.VolumeProjection(config_map=k8s.ConfigMapProjection(name="o", items=ITEMS)), id="a ConfigMap"),
        pytest.param(k8s.VolumeProjection(secret=k8s.SecretProjection(name="o", items=ITEMS)), id="a Secret"),
        pytest.param(
            k8s.VolumeProjection(
                downward_api=k8s.DownwardAPIProjection(
                    items=(
                        k8s.DownwardAPIVolumeFile(path="a", user=7),
                        k8s.DownwardAPIVolumeFile(path="b"),
                    )
                )
            ),
            id="the downward API",
        ),
    ],
)
def test_files_belong_to_the_user_of_their_item_or_else_of_the_volume(
    source: k8s.VolumeProjection, default_user: int | None
) -> None:
    assert {"a": replace(FILE, owner=7), "b": replace(FILE, owner=default_user)} == owned(
        {"a": FILE, "b": FILE}, source, default_user
    )


def test_files_of_all_keys_belong_to_the_user_of_the_volume() -> None:
    source = k8s.VolumeProjection(secret=k8s.SecretProjection(name="o"))

    assert {"k": replace(FILE, owner=0)} == owned({"k": FILE}, source, 0)
    assert {"k": FILE} == owned({"k": FILE}, source, None)


@pytest.mark.parametrize(
    ("expected", "user", "default_user"),
    [
        pytest.param(VolumeFile(b"t", 0o600, 9), 9, 5, id="its own"),
        pytest.param(VolumeFile(b"t", 0o600, 5), None, 5, id="the volume's"),
        pytest.param(TOKEN, None, None, id="none"),
    ],
)
@pytest.mark.parametrize("kind", ["token", "anchors", "certificate"])
def test_credential_with_a_user_is_for_that_user_alone(
    kind: str, expected: VolumeFile, user: int | None, default_user: int | None
) -> None:
    source = {
        "token": k8s.VolumeProjection(service_account_token=k8s.ServiceAccountTokenProjection(path="t", user=user)),
        "anchors": k8s.VolumeProjection(cluster_trust_bundle=k8s.ClusterTrustBundleProjection(path="t", user=user)),
        "certificate": k8s.VolumeProjection(
            pod_certificate=k8s.PodCertificateProjection(signer_name="a/b", key_type="ED25519", user=user)
        ),
    }[kind]

    assert {"t": expected} == owned({"t": TOKEN}, source, default_user)


def test_volumes_of_each_kind_name_the_user_of_their_files() -> None:
    made = (
        k8s.Volume(name="v", config_map=k8s.ConfigMapVolumeSource(name="o", default_user=5)),
        k8s.Volume(name="v", secret=k8s.SecretVolumeSource(secret_name="o", default_user=5)),
        k8s.Volume(name="v", downward_api=k8s.DownwardAPIVolumeSource(default_user=5)),
        k8s.Volume(name="v", projected=k8s.ProjectedVolumeSource(default_user=5)),
    )

    assert [5] * 4 == [sources.user for one in made if (sources := sources_of(one))]


def test_all_four_kinds_are_lists_of_sources_and_only_config_maps_may_lie_on_a_disk() -> None:
    made = [
        k8s.Volume(name="v", config_map=k8s.ConfigMapVolumeSource(name="o", default_mode=0o600)),
        k8s.Volume(name="v", secret=k8s.SecretVolumeSource(secret_name="o", optional=True)),
        k8s.Volume(name="v", downward_api=k8s.DownwardAPIVolumeSource()),
        k8s.Volume(name="v", projected=k8s.ProjectedVolumeSource(sources=(k8s.VolumeProjection(),) * 2)),
    ]
    read = [one for one in map(sources_of, made) if one is not None]

    assert [(0o600, False, 1), (0o644, True, 1), (0o644, True, 1), (0o644, True, 2)] == [
        (one.mode, one.in_memory, len(one.projections)) for one in read
    ]
    assert k8s.SecretProjection(name="o", optional=True) == read[1].projections[0].secret
    assert sources_of(k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource())) is None


@pytest.mark.parametrize("path", ["a", "a/b", "a..b", "a/..b", ".a", "a..."])
def test_a_path_below_the_volume_is_fine(path: str) -> None:
    assert path == clean_path(path)


@pytest.mark.parametrize(
    ("expected", "path"),
    [
        ("app.yaml", "./app.yaml"),
        ("a/b", "a//b"),
        ("a", "a/"),
        ("a/b", "a/./b"),
        ("a", "././/a//."),
        ("a/..b", "a/./..b"),
    ],
)
def test_empty_parts_and_dots_of_a_path_are_left_out(expected: str, path: str) -> None:
    assert expected == clean_path(path)


@pytest.mark.parametrize(
    "path", ["", "/a", "//a", "..", "a/..", "../a", "..data", "..data/a", "...", "./..data", ".//..data/a", ".", "./"]
)
def test_a_path_that_could_lead_elsewhere_is_not(path: str) -> None:
    with pytest.raises(ValueError, match=r"^invalid path: must "):
        clean_path(path)


def test_a_file_does_not_show_what_it_holds() -> None:
    assert "hidden" not in repr(VolumeFile(b"hidden", 0o644))
