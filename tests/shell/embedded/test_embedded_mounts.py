"""What a container sees of the file system, and that the machine's own stays as it was.

Real mounts in real namespaces: a machine that allows none fails here, as it should. Where there are no namespaces,
mounts are refused; that is in test_embedded_spec. The machine's mounts are here those that the agent sees, which it has
for itself: among the machine's own anybody may mount at any time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shell.embedded.embeddedkit import WITH_NAMESPACES, running_apart
from trikubelet.model.runtime_config import Mount, Security
from trikubelet.model.runtime_errors import RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shell.embedded.embeddedkit import Embedded

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


@pytest.fixture(params=WITH_NAMESPACES)
async def embedded(request: pytest.FixtureRequest) -> AsyncIterator[Embedded]:
    """A runtime with namespaces: as root, in a user namespace, and in a chroot."""
    async with running_apart(request.param) as (found, _):
        yield found


def exists(path: str) -> bool:
    """True if the machine has it."""
    return Path(path).exists()


def names_in(directory: Path) -> list[str]:
    """Return the entries of a directory of the machine."""
    return sorted(path.name for path in directory.iterdir())


async def test_a_volume_is_where_no_directory_was_and_the_machine_gets_none(embedded: Embedded, tmp_path: Path) -> None:
    before = embedded.mounts()
    (tmp_path / "hello").write_text("from the volume")
    volume = Mount("/trikubelet-no-such/deep/page", str(tmp_path))
    container_id = await embedded.start(
        "cat /trikubelet-no-such/deep/page/hello; echo back > /trikubelet-no-such/deep/page/answer", mounts=(volume,)
    )

    assert 0 == (await embedded.exited(container_id)).exit_code
    assert "back\n" == (tmp_path / "answer").read_text()
    assert ["from the volume"] == embedded.output()
    assert not exists("/trikubelet-no-such")
    assert before == embedded.mounts()


async def test_a_mount_point_is_made_beside_what_is_there(embedded: Embedded, tmp_path: Path) -> None:
    message = tmp_path / "message"
    message.touch()
    container_id = await embedded.start(
        'echo bye > /usr/share/termination-of-trikubelet && test -n "$(ls /usr/share/doc)"',
        mounts=(Mount("/usr/share/termination-of-trikubelet", str(message)),),
    )

    assert 0 == (await embedded.exited(container_id)).exit_code
    assert "bye\n" == message.read_text()
    assert not exists("/usr/share/termination-of-trikubelet")


async def test_a_read_only_volume_cannot_be_written(embedded: Embedded, tmp_path: Path) -> None:
    volume = Mount("/trikubelet-no-such", str(tmp_path), readonly=True)
    container_id = await embedded.start("touch /trikubelet-no-such/x", mounts=(volume,))

    assert 0 != (await embedded.exited(container_id)).exit_code
    assert [] == names_in(tmp_path)


async def test_a_volume_in_a_volume_is_seen_in_it(embedded: Embedded, tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    outer.mkdir()
    inner.mkdir()
    container_id = await embedded.start(
        "echo 1 > /trikubelet-no-such/in/one; echo 2 > /trikubelet-no-such/two",
        mounts=(Mount("/trikubelet-no-such/in", str(inner)), Mount("/trikubelet-no-such", str(outer))),
    )

    assert 0 == (await embedded.exited(container_id)).exit_code
    assert ["one"] == names_in(inner)
    assert ["in", "two"] == names_in(outer)


async def test_two_containers_share_a_volume(embedded: Embedded, tmp_path: Path) -> None:
    volume = (Mount("/trikubelet-no-such", str(tmp_path)),)
    writer = await embedded.start("echo shared > /trikubelet-no-such/word", "writer", mounts=volume)
    assert 0 == (await embedded.exited(writer)).exit_code

    reader = await embedded.start("cat /trikubelet-no-such/word", "reader", mounts=volume)

    assert 0 == (await embedded.exited(reader)).exit_code
    assert ["shared"] == embedded.output("reader")


async def test_a_read_only_root_can_be_written_in_its_volumes_only(embedded: Embedded, tmp_path: Path) -> None:
    script = "touch /trikubelet-no-such/yes && ! touch /no /usr/no /var/tmp/no 2>/dev/null && echo fine > /dev/null"
    container_id = await embedded.start(
        script, mounts=(Mount("/trikubelet-no-such", str(tmp_path)),), security=Security(readonly_rootfs=True)
    )

    assert 0 == (await embedded.exited(container_id)).exit_code
    assert ["yes"] == names_in(tmp_path)
    assert not exists("/var/tmp/no")


async def test_a_mount_of_what_is_not_there_is_named(embedded: Embedded, tmp_path: Path) -> None:
    container_id = await embedded.create(("true",), mounts=(Mount("/mnt", str(tmp_path / "absent")),))

    with pytest.raises(RuntimeFailure, match=f"cannot mount {tmp_path}/absent at /mnt: No such file"):
        await embedded.runtime.start_container(container_id)


@pytest.mark.parametrize("place", ["/proc", "/proc/sys", "/proc/no-such", "/usr/../proc/no-such"])
async def test_nothing_is_mounted_where_the_kernel_tells_of_processes(
    embedded: Embedded, tmp_path: Path, place: str
) -> None:
    container_id = await embedded.create(("true",), mounts=(Mount(place, str(tmp_path)),))

    with pytest.raises(RuntimeFailure, match=f"cannot mount {tmp_path} at {place}: /proc shows .*another mountPath"):
        await embedded.runtime.start_container(container_id)


async def test_a_command_in_a_container_sees_its_volumes(embedded: Embedded, tmp_path: Path) -> None:
    (tmp_path / "hello").write_text("seen")
    volume = Mount("/trikubelet-no-such", str(tmp_path))
    container_id = await embedded.start("while :; do sleep 1; done", mounts=(volume,))

    result = await embedded.runtime.exec_sync(container_id, ["cat", "/trikubelet-no-such/hello"], 0)

    assert (0, b"seen") == (result.exit_code, result.stdout)


async def test_what_a_container_mounts_stays_in_it() -> None:
    async with running_apart("as we are") as (embedded, _):
        before = embedded.mounts()
        container_id = await embedded.start(
            "mount -t tmpfs none /mnt && touch /mnt/inside", security=Security(privileged=True)
        )

        assert 0 == (await embedded.exited(container_id)).exit_code
        assert before == embedded.mounts()
        assert not exists("/mnt/inside")
