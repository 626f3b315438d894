"""Claims and volumes, asked of a memory API server by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kube.claims import ApiClaims
from trikubelet.model.api import (
    CSI_DRIVERS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SECRETS,
    VOLUME_ATTACHMENTS,
)
from trikubelet.model.errors import ObjectUnavailable
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import Link, MemoryApi
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from trio.testing import MockClock


@pytest.fixture
def server() -> ApiServer:
    return ApiServer(VirtualClock().now_ns)


async def test_a_claim_and_its_volume_are_read(autojump_clock: MockClock, server: ApiServer) -> None:
    claims = ApiClaims(MemoryApi(server, Link()))
    spec = {"volumeName": "pv", "accessModes": ["ReadWriteOnce"]}
    server.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": spec}, "default")
    local = {"local": {"path": "/disk"}, "volumeMode": "Block"}
    server.create(PERSISTENT_VOLUMES, {"metadata": {"name": "pv"}, "spec": local})

    claim = await claims.claim("default", "data")
    volume = await claims.volume(claim.spec.volume_name)

    assert volume.spec.local is not None
    assert ("/disk", "Block") == (volume.spec.local.path, volume.spec.volume_mode)


async def test_a_claims_status_is_told_while_it_is_as_it_was_read(autojump_clock: MockClock, server: ApiServer) -> None:
    claims = ApiClaims(MemoryApi(server, Link()))
    status = {"capacity": {"storage": "1Mi"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}}
    body = {"metadata": {"name": "data"}, "spec": {"volumeName": "pv"}, "status": status}
    server.create(PERSISTENT_VOLUME_CLAIMS, body, "default")
    claim = await claims.claim("default", "data")
    version = {"resourceVersion": claim.metadata.resource_version}
    grown = {"capacity": {"storage": "2Mi"}, "allocatedResourceStatuses": {"storage": None}}

    told = await claims.patch_claim_status(claim, {"metadata": version, "status": grown})

    assert told.status is not None
    assert ({"storage": "2Mi"}, {}) == (told.status.capacity, told.status.allocated_resource_statuses)
    with pytest.raises(ObjectUnavailable, match="the status of PVC default/data cannot be patched: "):
        await claims.patch_claim_status(claim, {"metadata": version, "status": grown})


async def test_what_does_not_exist_or_cannot_be_read_is_told_as_upstream_does(
    autojump_clock: MockClock, server: ApiServer
) -> None:
    claims = ApiClaims(MemoryApi(server, Link()))
    server.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "odd"}, "spec": {"volumeName": 7}}, "default")

    with pytest.raises(ObjectUnavailable, match=r'failed to fetch PVC from API server: .*"data" not found'):
        await claims.claim("default", "data")
    with pytest.raises(ObjectUnavailable, match=r'failed to fetch PV pv from API server: .*"pv" not found'):
        await claims.volume("pv")
    with pytest.raises(ObjectUnavailable, match=r"failed to fetch PVC from API server: .*volumeName"):
        await claims.claim("default", "odd")


async def test_what_a_driver_needs_is_read_and_what_it_did_not_say_is_none(
    autojump_clock: MockClock, server: ApiServer
) -> None:
    claims = ApiClaims(MemoryApi(server, Link()))
    server.create(CSI_DRIVERS, {"metadata": {"name": "disk"}, "spec": {"attachRequired": False}})
    attached = {"attacher": "disk", "nodeName": "n", "source": {}}
    status = {"attached": True, "attachmentMetadata": {"a": "1"}}
    server.create(VOLUME_ATTACHMENTS, {"metadata": {"name": "csi-1"}, "spec": attached, "status": status})
    server.create(SECRETS, {"metadata": {"name": "s"}, "data": {"k": "dg=="}}, "default")

    driver, attachment = await claims.csi_driver("disk"), await claims.attachment("csi-1")

    assert driver is not None
    assert driver.spec.attach_required is False
    assert attachment is not None
    assert attachment.status is not None
    assert {"a": "1"} == attachment.status.attachment_metadata
    assert {"k": "dg=="} == (await claims.secret("default", "s")).data
    assert (None, None) == (await claims.csi_driver("other"), await claims.attachment("csi-2"))
    with pytest.raises(ObjectUnavailable, match=r'failed to fetch secret default/t from API server: .*"t" not found'):
        await claims.secret("default", "t")


async def test_a_server_that_does_not_answer_is_given_up(autojump_clock: MockClock, server: ApiServer) -> None:
    link = Link()
    link.silence()
    began = trio.current_time()

    with pytest.raises(ObjectUnavailable, match="no answer within 10 s"):
        await ApiClaims(MemoryApi(server, link)).claim("default", "data")
    assert 10 == trio.current_time() - began

    with pytest.raises(ObjectUnavailable, match="no answer within 10 s"):
        await ApiClaims(MemoryApi(server, link)).csi_driver("disk")
