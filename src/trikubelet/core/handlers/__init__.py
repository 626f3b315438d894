"""From a handler in a pod's spec to what is asked: targets, ports by name, headers, commands, redirects.

Probes and lifecycle hooks share the handlers' form, so they share this; they differ in who they say they are and in
what an answer means to them (upstream: pkg/probe/http/request.go, pkg/kubelet/util ResolveContainerPort).
"""

from __future__ import annotations

from trikubelet.core.handlers.redirect import redirected
from trikubelet.core.handlers.target import HOOK_AGENT, PROBE_AGENT, host_of, http_target, port_number, probe_command

__all__ = ["HOOK_AGENT", "PROBE_AGENT", "host_of", "http_target", "port_number", "probe_command", "redirected"]
