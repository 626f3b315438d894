"""``protectKernelDefaults``: the kernel is only read, here from a dictionary, and nobody ever sets it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from trikubelet.app import compose
from trikubelet.app import kernel as kernel_of_node
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Settings, Surroundings, load_settings
from trikubelet.core.kernel_defaults import KERNEL_DEFAULTS, kernel_faults
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from pathlib import Path


def settings(place: Path, *, protect: bool) -> Settings:
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    (place / "c.yaml").write_text(json.dumps(head | {"protectKernelDefaults": protect, "resolvConf": ""}))
    flags = [f"--config={place}/c.yaml", f"--root-dir={place}/root", "--standalone"]
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
        await compose.run(settings(tmp_path, protect=protect), lambda: None, None)

    assert expected.replace("{}", str(tmp_path)) == str(failed.value)
    assert not (tmp_path / "root").exists()


def test_a_kernel_that_does_not_say_is_not_as_it_should_be() -> None:
    assert [] == kernel_faults(KERNEL_DEFAULTS)
    assert ["kernel.keys.root_maxkeys cannot be read and must be 1000000"] == [
        fault.split(" (")[0] for fault in kernel_faults(dict(KERNEL_DEFAULTS) | {"kernel.keys.root_maxkeys": None})
    ]
