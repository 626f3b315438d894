"""Kernels that a node may refuse to start on. They are only read, here from a dictionary, and never set."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from trikubelet.app import compose
from trikubelet.app import kernel as kernel_of_node
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Settings, Surroundings, load_settings
from trikubelet.core.kernel_defaults import KERNEL_DEFAULTS, kernel_faults
from trikubelet.host.cgroups import Hierarchies
from trikubelet.model.errors import StartFailed
from trikubelet.model.node_reading import NodeReading

if TYPE_CHECKING:
    from pathlib import Path


def settings(place: Path, *words: str, **fields: bool) -> Settings:
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    (place / "c.yaml").write_text(json.dumps(head | fields | {"resolvConf": ""}))
    flags = [f"--config={place}/c.yaml", f"--root-dir={place}/root", "--standalone", *words]
    return load_settings(parse_agent_flags(flags), Surroundings(0, {}, "n"))


def stop(*_: object) -> None:
    raise StartFailed("it went on")


@pytest.mark.parametrize(
    ("expected", "protect", "kernel"),
    [
        (
            "protectKernelDefaults ({}/c.yaml:1): vm.overcommit_memory is 0 and must be 1 "
            "(sysctl -w vm.overcommit_memory=1, or unset protectKernelDefaults)\n"
            "protectKernelDefaults ({}/c.yaml:1): kernel.panic is 1 and must be 10 "
            "(sysctl -w kernel.panic=10, or unset protectKernelDefaults)",
            True,
            {"vm.overcommit_memory": 0, "kernel.panic": 1},
        ),
        ("it went on", True, {}),
        ("it went on", False, {"vm.overcommit_memory": 0}),
    ],
    ids=["others", "as they should be", "not protected"],
)
async def test_a_node_that_protects_them_starts_on_no_other_kernel(
    expected: str, protect: bool, kernel: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_of_node, "read_sysctls", lambda _: dict(KERNEL_DEFAULTS) | kernel)
    monkeypatch.setattr(compose, "make_run_dir", stop)

    with pytest.raises(StartFailed) as failed:
        await compose.run(settings(tmp_path, protectKernelDefaults=protect), lambda: None, None)

    assert expected.replace("{}", str(tmp_path)) == str(failed.value)
    assert not (tmp_path / "root").exists()


SWAP = (
    "failSwapOn ({}): 1024 MiB of swap are on (run swapoff -a and remove swap from /etc/fstab, or set failSwapOn:"
    " false)"
)
OLD = (
    "failCgroupV1 ({}): this machine has version 1 of cgroups (boot with systemd.unified_cgroup_hierarchy=1, or set"
    " failCgroupV1: false)"
)


@pytest.mark.parametrize(
    ("expected", "swap_bytes", "version", "words", "fields"),
    [
        pytest.param([], 1 << 30, 1, (), {}, id="the defaults refuse nothing"),
        pytest.param([], 1 << 30, 1, (), {"failSwapOn": False, "failCgroupV1": False}, id="allowed"),
        pytest.param([], 0, 2, (), {"failSwapOn": True, "failCgroupV1": True}, id="no swap, version 2"),
        pytest.param([SWAP, OLD], 1 << 30, 1, (), {"failSwapOn": True, "failCgroupV1": True}, id="refused"),
        pytest.param(
            [SWAP.replace("{}", "flag --fail-swap-on")], 1 << 30, 2, ("--fail-swap-on",), {}, id="refused by a flag"
        ),
        pytest.param(
            [OLD.replace("{}", "flag --fail-cgroupv1")], 0, 1, ("--fail-cgroupv1",), {}, id="old ones refused by a flag"
        ),
    ],
)
def test_machine_with_swap_or_old_cgroups_is_refused_where_that_is_configured(
    expected: list[str],
    swap_bytes: int,
    version: int,
    words: tuple[str, ...],
    fields: dict[str, bool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_of_node, "read_node", lambda: NodeReading("n", 1 << 32, 1, swap_bytes=swap_bytes))
    monkeypatch.setattr(kernel_of_node, "read_hierarchies", lambda: Hierarchies(version, {}, ()))

    found: list[str] = []
    try:
        kernel_of_node.confirm_kernel(settings(tmp_path, *words, **fields))
    except StartFailed as failed:
        found = str(failed).splitlines()

    assert [line.replace("{}", f"{tmp_path}/c.yaml:1") for line in expected] == found


def test_a_kernel_that_does_not_say_is_not_as_it_should_be() -> None:
    assert [] == kernel_faults(KERNEL_DEFAULTS)
    assert ["kernel.keys.root_maxkeys cannot be read and must be 1000000"] == [
        fault.split(" (")[0] for fault in kernel_faults(dict(KERNEL_DEFAULTS) | {"kernel.keys.root_maxkeys": None})
    ]
