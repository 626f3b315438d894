"""The agent's flags as argparse has them: for help, completion and the manual page; ``app.flags`` reads them.

A module of its own, so that a shell that loads completions does not load what reads a configuration.
"""

from __future__ import annotations

import argparse
from typing import Final

from trikubelet.app.flag_table import FLAGS, Form, Group

SHORT: Final = {"-v": "v", "-h": "help"}
_QUESTIONS: Final = ("help", "version")
AGENT_EXAMPLES: Final = (
    (
        "Run the pods of a directory on this machine, as plain processes, without a container runtime",
        "trikubelet --standalone --container-runtime-endpoint=embedded: --pod-manifest-path=manifests",
    ),
    (
        "Run static pods on containerd",
        "trikubelet --standalone --container-runtime-endpoint=unix:///run/containerd/containerd.sock",
    ),
    (
        "Join a cluster",
        "trikubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf "
        "--kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml",
    ),
)
"""Pairs of a description and a command."""


def agent_help() -> str:
    """Return the help of the agent's flags, with examples."""
    examples = "\n\n".join(f"  # {what}\n  {command}" for what, command in AGENT_EXAMPLES)
    return f"{build_parser().format_help()}\nexamples:\n{examples}"


def build_parser() -> argparse.ArgumentParser:
    """Return a parser with the flags, in the groups of the help."""
    parser = argparse.ArgumentParser(
        prog="trikubelet",
        usage="trikubelet FLAGS",
        description="Run the pods of this machine. Flags override drop-in files, drop-in files override the "
        "configuration file, and that overrides the defaults.",
        epilog="Write --flag=value or --flag value; switches are --flag or --flag=false.",
        add_help=False,
        allow_abbrev=False,
    )
    for group in Group:
        section = parser.add_argument_group(group.value)
        for flag in FLAGS.values():
            if flag.group is group:
                names = [*(short for short, name in SHORT.items() if name == flag.name), f"--{flag.name}"]
                text = flag.help.replace("%", "%%")
                if flag.name in _QUESTIONS:
                    section.add_argument(*names, action="store_true", help=text)
                else:
                    count = "?" if flag.form is Form.BOOL else None
                    section.add_argument(*names, metavar=flag.form.value, nargs=count, help=text)
    return parser
