"""The manifest URL's redirects: how many are followed, and what is sent to where they lead. What goes over a wire, and
comes back, is in ``shell/sources/test_manifest_adapters.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kube.manifest_url import REDIRECTS_MAX, ManifestUrl
from trikubelet.model.manifest_places import ManifestAnswer

if TYPE_CHECKING:
    import httpx

SECRETS = {"authorization": ["Bearer secret"], "cookie": ["a=b"], "host": ["pods.example"], "x-node": ["n"]}
ANSWER = ManifestAnswer(200, b"body")


class Redirected(ManifestUrl):
    """One whose requests are redirected to these places in turn, and then answered; what each was sent is kept."""

    def __init__(self, url: str, *places: str) -> None:
        super().__init__(url, SECRETS, 1000)
        self._places = list(places)
        self.sent: list[set[str]] = []

    async def _ask(self, url: httpx.URL, headers: httpx.Headers) -> ManifestAnswer | httpx.URL:
        await trio.lowlevel.checkpoint()
        self.sent.append(SECRETS.keys() & headers.keys())
        return url.join(self._places.pop(0)) if self._places else ANSWER


@pytest.mark.parametrize(
    ("url", "place", "is_same"),
    [
        pytest.param("https://a/x", "/y", True, id="the same server"),
        pytest.param("https://a/x", "https://a:443/y", True, id="by the port it has anyway"),
        pytest.param("http://a/x", "http://a/y", True, id="in the clear as before"),
        pytest.param("http://a/x", "https://a/y", True, id="not in the clear any more"),
        pytest.param("https://a/x", "http://a/y", False, id="in the clear"),
        pytest.param("https://a:8443/x", "http://a:8443/y", False, id="in the clear at the same port"),
        pytest.param("https://a/x", "https://b/x", False, id="another host"),
        pytest.param("https://a/x", "https://a:8443/x", False, id="another port"),
    ],
)
async def test_what_is_for_one_server_goes_to_no_other_and_never_in_the_clear_where_it_did_not_before(
    url: str, place: str, is_same: bool
) -> None:
    fetch = Redirected(url, place)

    assert ANSWER == await fetch.fetch()

    assert [set(SECRETS), set(SECRETS) if is_same else {"x-node"}] == fetch.sent


async def test_what_was_left_out_once_is_not_sent_to_where_the_next_redirect_leads_back() -> None:
    fetch = Redirected("https://a/x", "http://a/x", "https://a/x")

    assert ANSWER == await fetch.fetch()

    assert [set(SECRETS), {"x-node"}, {"x-node"}] == fetch.sent


async def test_so_many_redirects_are_followed_and_no_more() -> None:
    assert ANSWER == await Redirected("https://a/", *["/x"] * REDIRECTS_MAX).fetch()

    with pytest.raises(ConnectionError, match="redirected more than 10 times"):
        await Redirected("https://a/", *["/x"] * (REDIRECTS_MAX + 1)).fetch()


@pytest.mark.parametrize("url", ["http:///pods", "https://", "ftp://a/pods", "/pods"])
async def test_a_url_without_a_host_or_of_another_scheme_is_said_to_be_none(url: str) -> None:
    with pytest.raises(ConnectionError, match="it must begin with http:// or https:// and name a host"):
        await ManifestUrl(url, {}, 1000).fetch()
