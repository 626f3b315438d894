"""Image references: which tag they mean, and whether they are pulled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.image_names import default_pull_policy, repository, should_pull, untagged, with_default_tag

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("expected", "image"),
    [
        ("busybox:latest", "busybox"),
        ("busybox:1.36", "busybox:1.36"),
        ("library/busybox:latest", "library/busybox"),
        ("registry.example:latest", "registry.example"),
        ("registry.example/busybox:latest", "registry.example/busybox"),
        ("registry.example:5000/busybox:latest", "registry.example:5000/busybox"),
        ("registry.example:5000/a/b-c_d.e/f:1", "registry.example:5000/a/b-c_d.e/f:1"),
        ("localhost:5000/x:latest", "localhost:5000/x"),
        ("[2001:db8::1]:5000/x:latest", "[2001:db8::1]:5000/x"),
        ("Registry.Example/x:latest", "Registry.Example/x"),
        (f"busybox@{DIGEST}", f"busybox@{DIGEST}"),
        (f"busybox:1@{DIGEST}", f"busybox:1@{DIGEST}"),
        ("a__b--c:latest", "a__b--c"),
        ("x:" + "t" * 128, "x:" + "t" * 128),
    ],
)
def test_the_tag_a_reference_means(expected: str, image: str) -> None:
    assert expected == with_default_tag(image)


@pytest.mark.parametrize(
    "image",
    [
        "",
        "busybox:",
        "busybox:-1",
        "busybox:tag:tag",
        "busybox@sha256:abc",
        "/busybox",
        "busybox/",
        "a//b",
        "a...b",
        "-a",
        "a b",
        "busybox\n",
        "busybox:täg",
        "bösybox",
        "x:" + "t" * 129,
        "registry.example:port/x",
        "https://registry.example/x",
    ],
)
def test_what_is_no_reference_is_refused_and_named(image: str) -> None:
    with pytest.raises(ValueError, match="invalid reference format") as caught:
        with_default_tag(image)
    assert f'"{image}"' in str(caught.value)


@pytest.mark.parametrize(
    ("why", "image"),
    [
        (f"invalid repository name ({'0a' * 32}), cannot specify 64-byte hexadecimal strings", "0a" * 32),
        ("invalid reference format: repository name (library/Busybox) must be lowercase", "Busybox"),
        ("invalid reference format: repository name (team/App) must be lowercase", "team/App:1"),
        ("invalid reference format: repository name (App@sha256) must be lowercase", f"registry.example/App@{DIGEST}"),
        ("invalid reference format: repository name (/A) must be lowercase", "Not//A:Valid:Name"),
        ("invalid reference format", "busybox:Tag:Tag"),
        ("invalid checksum digest length", "busybox@sha256:" + "0a" * 31),
        ("invalid checksum digest format", "busybox@sha256:" + "0A" * 32),
        ("unsupported digest algorithm", "busybox@md5:" + "0a" * 16),
        ("repository name must not be more than 255 characters", "x/" * 127 + "yz"),
        ("repository name must not be more than 255 characters", "r.example/" + "x" * 256 + ":tag"),
    ],
)
def test_a_name_that_no_registry_can_have_is_refused_in_upstreams_words(why: str, image: str) -> None:
    with pytest.raises(ValueError, match="couldn't parse image name") as caught:
        with_default_tag(image)
    assert f'couldn\'t parse image name "{image}": {why}' == str(caught.value)


@pytest.mark.parametrize("image", ["0a" * 31, "0A" * 32 + "/x", "r.example/" + "x" * 255, "r.example/" + "0a" * 32])
def test_a_name_may_be_as_long_as_that(image: str) -> None:
    assert f"{image}:latest" == with_default_tag(image)


@pytest.mark.parametrize(
    ("expected", "plain", "image"),
    [
        ("docker.io/library/busybox", "busybox", "busybox:1"),
        ("docker.io/library/busybox", "docker.io/busybox", "docker.io/busybox"),
        ("docker.io/library/busybox", "index.docker.io/busybox", "index.docker.io/busybox"),
        ("docker.io/team/app", "team/app", f"team/app@{DIGEST}"),
        ("registry.example/app", "registry.example/app", f"registry.example/app:1@{DIGEST}"),
        ("registry:5000/app", "registry:5000/app", "registry:5000/app"),
        ("localhost/app", "localhost/app", "localhost/app"),
        ("Registry/app", "Registry/app", "Registry/app"),
        ("docker.io/library/registry.example", "registry.example", "registry.example:5000"),
    ],
)
def test_the_repository_a_reference_means(expected: str, plain: str, image: str) -> None:
    assert expected == repository(image)
    assert plain == untagged(image)


@pytest.mark.parametrize(
    ("expected", "image"),
    [
        ("Always", "busybox"),
        ("Always", "busybox:latest"),
        ("IfNotPresent", "busybox:1"),
        ("Always", "registry.example:5000/busybox"),
        ("IfNotPresent", f"busybox@{DIGEST}"),
        ("IfNotPresent", f"busybox:latest@{DIGEST}"),
        ("IfNotPresent", "No Reference"),
    ],
)
def test_default_pull_policy(expected: str, image: str) -> None:
    assert expected == default_pull_policy(image)


@pytest.mark.parametrize(
    ("expected", "policy", "present"),
    [(True, "Always", True), (True, "Always", False), (False, "IfNotPresent", True), (True, "IfNotPresent", False),
     (False, "Never", True), (False, "Never", False), (True, "", False), (False, "", True)],
)  # fmt: skip
def test_should_pull(expected: bool, policy: str, present: bool) -> None:
    assert expected == should_pull(policy, present=present)


@given(st.from_regex(r"[a-z0-9.:/@_-]{0,40}", fullmatch=True))
def test_a_tag_is_added_at_most_once(image: str) -> None:
    try:
        tagged = with_default_tag(image)
    except ValueError:
        return
    assert tagged == with_default_tag(tagged)
    assert tagged in (image, f"{image}:latest")


def test_a_long_line_of_rubbish_is_refused_without_delay() -> None:
    for rubbish in ("a" * 5_000 + "!", "a-" * 2_500 + "!", "a." * 2_500 + "!", "a/" * 2_500 + "!", "A" * 5_000):
        with pytest.raises(ValueError, match="invalid reference format"):
            with_default_tag(rubbish)
