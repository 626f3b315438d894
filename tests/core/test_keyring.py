"""Which logins fit an image: the places compared, docker's files read."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.keyring import config_json_logins, covers, dockercfg_logins, fitting, secret_logins
from trikubelet.model.k8s import ObjectMeta, Secret
from trikubelet.model.registry import Login

JOE = Login("joe", "s3cret")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(type_: str, **data: str) -> Secret:
    return Secret(metadata=ObjectMeta(name="s"), type=type_, data={f".{key}": text for key, text in data.items()})


@pytest.mark.parametrize(
    ("expected", "place", "repository"),
    [
        (True, "registry.example", "registry.example/app"),
        (True, "registry.example/team", "registry.example/team/app"),
        (True, "registry.example/te", "registry.example/team/app"),
        (False, "registry.example/other", "registry.example/team/app"),
        (False, "registry.example", "registry.example:5000/app"),
        (False, "registry.example:5000", "registry.example/app"),
        (True, "registry.example:5000", "registry.example:5000/app"),
        (True, "*.example", "registry.example/app"),
        (True, "*.*.example", "a.b.example/app"),
        (False, "*.example", "a.b.example/app"),
        (False, "*", "registry.example/app"),
        (True, "reg*.exa?ple", "registry.example/app"),
        (False, "reg*.exa?ple", "other.example/app"),
        (False, "*.example/*/app", "registry.example/team/app"),
        (False, "*.example:*", "registry.example:5000/app"),
        (True, "https://registry.example", "registry.example/app"),
        (True, "[2001:db8::1]:5000", "[2001:db8::1]:5000/app"),
        (False, "[2001:db8::1]:5000", "[2001:db8::2]:5000/app"),
        (False, "", "registry.example/app"),
        (False, "registry.example.evil", "registry.example/app"),
    ],
)
def test_a_place_covers_a_repository(expected: bool, place: str, repository: str) -> None:
    assert expected == covers(place, repository)


@pytest.mark.parametrize(
    ("expected", "places", "repository"),
    [
        (["r.example/team", "r.example"], ["r.example", "r.example/team"], "r.example/team/app"),
        (["r.example"], ["r.example", "r.example/team"], "r.example/app"),
        (["r.example", "*.example"], ["*.example", "r.example"], "r.example/app"),
        (["https://r.example/v2/"], ["https://r.example/v2/"], "r.example/app"),
        (["http://r.example/v1/team"], ["http://r.example/v1/team"], "r.example/team/app"),
        (["https://index.docker.io/v1/"], ["https://index.docker.io/v1/"], "docker.io/library/app"),
        (["docker.io"], ["docker.io", "https://index.docker.io/v1/"], "docker.io/library/app"),
        ([], ["https://index.docker.io/v1/"], "r.example/app"),
        ([], ["https://index.docker.io/v1/"], "localhost/app"),
        ([], [], "docker.io/library/app"),
    ],
)
def test_all_that_fit_are_tried_the_longest_first(expected: list[str], places: list[str], repository: str) -> None:
    assert expected == fitting([(place, place) for place in places], repository)


def test_of_two_logins_for_one_place_both_are_tried_in_their_order() -> None:
    assert ["old", "new"] == fitting([("r.example", "old"), ("https://r.example/", "new")], "r.example/app")


def test_a_config_json_has_logins_in_plain_and_in_one_word() -> None:
    text = {
        "auths": {
            "a.example": {"username": "joe", "password": "s3cret", "email": "j@x"},
            "b.example": {"auth": encoded("joe:s3cret")},
            "c.example": {"auth": encoded("joe:s3cret").rstrip("=")},
            "d.example": {"auth": encoded("joe:with:colons"), "username": "someone"},
            "kept-elsewhere.example": {},
        },
        "credsStore": "desktop",
        "HttpHeaders": {"a": "b"},
    }
    expected = {"a.example": JOE, "b.example": JOE, "c.example": JOE, "d.example": Login("joe", "with:colons")}
    assert expected == config_json_logins(json.dumps(text).encode())


def test_a_dockercfg_has_its_places_at_the_top() -> None:
    assert {"a.example": JOE} == dockercfg_logins(json.dumps({"a.example": {"auth": encoded("joe:s3cret")}}).encode())


@pytest.mark.parametrize("text", [b"{}", b'{"auths": null}', b'{"auths": {}}', b'{"credHelpers": {"x": "y"}}'])
def test_a_config_json_without_logins_has_none(text: bytes) -> None:
    assert {} == config_json_logins(text)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("it is no JSON", b"s3cret"),
        ("it is no JSON", b"\xff"),
        ("it is no docker configuration: Expected `object`, got `array` - at `$.auths`", b'{"auths": ["s3cret"]}'),
        ("a.example: auth is not base64 of user:password", b'{"auths": {"a.example": {"auth": "s3cret!"}}}'),
        ("a.example: auth is not base64 of user:password", b'{"auths": {"a.example": {"auth": "czNjcmV0"}}}'),
    ],
)
def test_what_cannot_be_read_is_named_and_not_quoted(expected: str, text: bytes) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        config_json_logins(text)
    assert expected == str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("expected", "held"),
    [
        ({"a": JOE}, secret("kubernetes.io/dockerconfigjson",
                            dockerconfigjson=encoded('{"auths":{"a":{"username":"joe","password":"s3cret"}}}'))),
        ({"a": JOE}, secret("kubernetes.io/dockercfg",
                            dockercfg=encoded('{"a":{"username":"joe","password":"s3cret"}}'))),
        ("it has no .dockerconfigjson", secret("kubernetes.io/dockerconfigjson", dockercfg="e30=")),
        (".dockercfg: it is no base64", secret("kubernetes.io/dockercfg", dockercfg="!")),
        (".dockercfg: it is no JSON", secret("kubernetes.io/dockercfg", dockercfg=encoded("x"))),
        ("it is of type Opaque, not kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg",
         secret("", dockercfg="e30=")),
    ],
)  # fmt: skip
def test_the_logins_of_a_secret(expected: dict[str, Login] | str, held: Secret) -> None:
    try:
        found: dict[str, Login] | str = secret_logins(held)
    except ValueError as error:
        found = str(error)
    assert expected == found


def test_repr_of_a_login_has_no_password() -> None:
    assert "s3cret" not in repr(JOE)


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_texts_can_be_compared(place: str, repository: str) -> None:
    assert covers(place, repository) in (True, False)
    assert fitting([(place, 1)], repository) in ([], [1])


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_login_survives_docker_s_word_for_it(user: str, password: str) -> None:
    user = user.replace(":", "")
    text = json.dumps({"auths": {"a": {"auth": encoded(f"{user}:{password}")}}})
    expected = {"a": Login(user, password)} if user or password else {}
    assert expected == config_json_logins(text.encode())
