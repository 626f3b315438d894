"""A whole agent and two fake runtimes: images are asked for at one endpoint, sandboxes and containers at the other."""

from __future__ import annotations

import json
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING

import pytest
import trio

from shell.app.test_node_api_of_an_agent import agent, settings
from shell.memberkit import until
from trikubelet.cri.v1.api_grpc import ImageServiceBase
from trikubelet.fake.runtime import Plan, run_fake

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)

POD = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: web:1}]}}"
OF_IMAGES = {name for name in vars(ImageServiceBase) if name[0].isupper()}


def asked(journal: StringIO) -> set[str]:
    """The methods that were called there."""
    return {json.loads(line)["method"] for line in journal.getvalue().splitlines()}


async def test_images_come_from_the_image_service_endpoint_and_containers_from_the_runtimes(place: Path) -> None:
    runtime, images = StringIO(), StringIO()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(run_fake, Plan(), f"{place}/runtime.sock", journal=runtime))
        await nursery.start(partial(run_fake, Plan(), f"{place}/images.sock", journal=images))
        endpoints = ("--container-runtime-endpoint", "runtime"), ("--image-service-endpoint", "images")
        # The machine's cgroups would outlive us.
        flags = ["--cgroups-per-qos=false", "--enforce-node-allocatable="]
        of = settings(place, *flags, *(f"{flag}=unix://{place}/{name}.sock" for flag, name in endpoints))
        (place / "manifests/web.yaml").write_text(POD)
        async with agent(of):
            await until(lambda: "StartContainer" in asked(runtime))
        nursery.cancel_scope.cancel()

    assert {"ImageStatus", "PullImage"} <= asked(images) <= OF_IMAGES
    assert set() == asked(runtime) & OF_IMAGES
