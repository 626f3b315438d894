"""Image references: which tag they mean, and whether they are pulled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.image_names import default_pull_policy, should_pull, with_default_tag

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
        "Busybox",
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
