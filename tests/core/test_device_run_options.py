"""The additions to a container's configuration that its devices need."""

from __future__ import annotations

from trikubelet.core.devices.run_options import merged, with_devices
from trikubelet.model.devices import RunOptions
from trikubelet.model.runtime_config import ContainerConfig, Device, Mount

ONE = RunOptions(
    envs=(("A", "1"), ("B", "1")),
    mounts=(Mount("/lib/gpu", "/one", readonly=True),),
    devices=(Device("/dev/gpu", "/dev/one", "rw"),),
    annotations={"a": "1"},
    cdi_devices=("vendor.com/gpu=one",),
)
TWO = RunOptions(
    envs=(("B", "2"), ("C", "2")),
    mounts=(Mount("/lib/gpu", "/two"), Mount("/lib/nic", "/two")),
    devices=(Device("/dev/gpu", "/dev/two", "r"), Device("/dev/nic", "/dev/two", "r")),
    annotations={"a": "2", "b": "2"},
    cdi_devices=("vendor.com/gpu=one", "vendor.com/nic=two"),
)


def test_first_answer_counts_where_two_resources_add_the_same() -> None:
    assert RunOptions() == merged(())
    assert ONE == merged((ONE,))
    assert RunOptions(
        envs=(("A", "1"), ("B", "1"), ("C", "2")),
        mounts=(*ONE.mounts, TWO.mounts[1]),
        devices=(*ONE.devices, TWO.devices[1]),
        annotations={"a": "1", "b": "2"},
        cdi_devices=TWO.cdi_devices,
    ) == merged((ONE, TWO))


def test_own_configuration_of_the_container_counts_before_that_of_its_devices() -> None:
    own = ContainerConfig(
        "c",
        0,
        "image",
        envs=(("A", "own"),),
        mounts=(Mount("/lib/gpu", "/own"),),
        devices=(Device("/dev/gpu", "/dev/own", "r"),),
        annotations={"a": "own"},
    )
    made = with_devices(own, TWO)
    assert (("B", "2"), ("C", "2"), ("A", "own")) == made.envs
    assert (Mount("/lib/nic", "/two"), Mount("/lib/gpu", "/own")) == made.mounts
    assert (Device("/dev/gpu", "/dev/own", "r"), Device("/dev/nic", "/dev/two", "r")) == made.devices
    assert {"a": "own", "b": "2"} == made.annotations
    assert TWO.cdi_devices == made.cdi_devices
    assert own == with_devices(own, RunOptions())
