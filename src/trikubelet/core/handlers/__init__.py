"""Turns a handler in a pod's spec into a request: targets, named ports, headers, commands, redirects.

Probes and lifecycle hooks have the same kinds of handlers, so they share this. They differ in their user agent and in
their use of the answer (upstream: pkg/probe/http/request.go, pkg/kubelet/util ResolveContainerPort).
"""

from __future__ import annotations

from trikubelet.core.handlers.redirect import redirected
from trikubelet.core.handlers.target import HOOK_AGENT, PROBE_AGENT, host_of, http_target, port_number, probe_command

__all__ = ["HOOK_AGENT", "PROBE_AGENT", "host_of", "http_target", "port_number", "probe_command", "redirected"]
