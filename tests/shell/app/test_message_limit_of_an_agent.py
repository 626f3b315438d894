"""A whole agent on the fake runtime: the limit of messages that its operator set is that of its channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shell.app.test_node_api_of_an_agent import agent, settings
from trikubelet.app import compose

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("words", "mebibytes"), [((), 16), (("--runtime-message-mib=64",), 64)])
async def test_channels_to_the_runtime_and_to_its_images_take_messages_as_long_as_was_said(
    place: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], mebibytes: int
) -> None:
    opened: list[int] = []
    real = compose.open_channel

    def noted(endpoint: str, **options: Any) -> Any:
        opened.append(options.get("message_bytes_max", 0))
        return real(endpoint, **options)

    monkeypatch.setattr(compose, "open_channel", noted)
    images = f"--image-service-endpoint=unix://{place}/images.sock"
    async with agent(settings(place, images, *words)):
        assert [mebibytes * 2**20] * 2 == opened
