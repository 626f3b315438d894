"""Which trust anchors a projected source picks, and what its file is: tables."""

from __future__ import annotations

import base64

import pytest

from trikubelet.core import trust_bundles
from trikubelet.core.containers.volume_files import Contents
from trikubelet.core.trust_bundles import trust_anchors
from trikubelet.model import k8s


def pem(*contents: bytes) -> str:
    blocks = (base64.b64encode(content).decode() for content in contents)
    return "between\n".join(f"-----BEGIN CERTIFICATE-----\n{block}\n-----END CERTIFICATE-----\n" for block in blocks)


def bundle(name: str, *contents: bytes, signer: str = "", **labels: str) -> k8s.ClusterTrustBundle:
    return k8s.ClusterTrustBundle(
        metadata=k8s.ObjectMeta(name=name, labels=labels),
        spec=k8s.ClusterTrustBundleSpec(signer_name=signer, trust_bundle=pem(*contents)),
    )


BUNDLES = (
    bundle("plain", b"p"),
    bundle("s:1", b"b", b"a", signer="s", live="yes"),
    bundle("s:2", b"b", b"c", signer="s", live="no"),
    bundle("other:1", b"o", signer="other", live="yes"),
)
NOT_NO = k8s.LabelSelectorRequirement(key="live", operator="NotIn", values=("no",))


def source(**fields: object) -> k8s.ClusterTrustBundleProjection:
    return k8s.ClusterTrustBundleProjection(path="ca.pem", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expected", "picks"),
    [
        ((b"p",), source(name="plain")),
        ((b"a", b"b"), source(name="s:1")),
        ((b"a", b"b", b"c"), source(signer_name="s", label_selector=k8s.LabelSelector())),
        ((b"a", b"b"), source(signer_name="s", label_selector=k8s.LabelSelector(match_labels={"live": "yes"}))),
        ((b"a", b"b"), source(signer_name="s", label_selector=k8s.LabelSelector(match_expressions=(NOT_NO,)))),
        ((), source(signer_name="s", optional=True)),
        ((), source(name="none", optional=True)),
    ],
)
def test_each_certificate_of_what_is_picked_is_there_once(
    expected: tuple[bytes, ...], picks: k8s.ClusterTrustBundleProjection
) -> None:
    assert pem(*expected).replace("between\n", "") == trust_anchors(picks, BUNDLES, Contents()).decode()


@pytest.mark.parametrize(
    ("told", "picks"),
    [
        ('clustertrustbundles.certificates.k8s.io "none" not found', source(name="none")),
        ("combination of signerName and labelSelector matched zero ClusterTrustBundles", source(signer_name="s")),
        (
            "combination of signerName and labelSelector matched zero ClusterTrustBundles",
            source(signer_name="t", label_selector=k8s.LabelSelector()),
        ),
    ],
)
def test_what_is_not_there_and_not_optional_is_told_as_upstream_does(
    told: str, picks: k8s.ClusterTrustBundleProjection
) -> None:
    with pytest.raises(ValueError, match=told):
        trust_anchors(picks, BUNDLES, Contents())


def test_long_certificates_are_written_in_lines_of_64() -> None:
    text = trust_anchors(source(name="long"), [bundle("long", bytes(100))], Contents()).decode()
    assert 64 == max(map(len, text.splitlines()))


def test_a_bundle_is_read_once_for_all_sources_of_a_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    read, real = [], trust_bundles.certificate_blocks
    monkeypatch.setattr(trust_bundles, "certificate_blocks", lambda text: real(read.append(text) or text))
    contents, many = Contents(), [bundle("many", *[b"a"] * 1000)]
    made = {trust_anchors(source(name="many"), many, contents) for _ in range(100)}

    assert ({pem(b"a").encode()}, 1) == (made, len(read))
