"""The package, as apt installs it and as systemd starts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from live.kit import packages
from vm.kit.node import import_images

if TYPE_CHECKING:
    from collections.abc import Callable

    from vm.kit.machine import Machine

HEALTH = "http://127.0.0.1:10248/healthz"


def test_installed_package_starts_when_enabled_and_is_gone_after_a_purge(new_machine: Callable[..., Machine]) -> None:
    machine = new_machine()
    import_images(machine)
    machine.send(packages.package("trikubelet", "deb"), "/root/trikubelet.deb")

    machine.run("apt-get install -y /root/trikubelet.deb")
    assert "inactive\n" == machine.run("systemctl is-active trikubelet", codes=(3,))

    machine.run("systemctl enable --now trikubelet")
    assert "ok" == machine.run(f"curl --silent --fail {HEALTH}").strip()
    assert "30s\n" == machine.run("systemctl show -P WatchdogUSec trikubelet")
    assert "node   Ready" in machine.run("trikubelet get nodes")

    machine.run("apt-get purge -y trikubelet")
    assert "absent\n" == machine.run("ls /usr/bin/trikubelet /etc/trikubelet 2>/dev/null || echo absent")
    assert "not-found\n" == machine.run("systemctl show -P LoadState trikubelet")
