"""Commands that users type out of habit from kubectl, docker, podman or systemctl, and the command to type here."""

from __future__ import annotations

from typing import Final

_GET: Final = "use `trikubelet get pods`"
_GET_IMAGES: Final = "use `trikubelet get images`"
_APPLY: Final = "use `trikubelet apply -f FILE`"
_DELETE: Final = "use `trikubelet delete pod NAME` or `trikubelet delete -f FILE`"
_STATUS: Final = "use `trikubelet get pods` for the pods, `trikubelet doctor` for the node"
_SHELL: Final = "use `trikubelet exec -it POD -- sh`"
_DESCRIBE: Final = "use `trikubelet describe pod NAME`"
_EDIT: Final = "edit the manifest; `trikubelet config view` shows in which directory the agent reads it"
_AGENT: Final = "write only flags to run the agent; `trikubelet help agent` lists them"
_CLUSTER: Final = "this needs a cluster: use kubectl with its API server"
_PULL: Final = "the agent pulls an image when a pod needs it"
_UNUSED: Final = "the agent removes unused images when the disk fills up"

HINTS: Final = {
    **dict.fromkeys(("ps", "ls", "list", "po", "pod", "pods"), _GET),
    **dict.fromkeys(("no", "node", "nodes"), "use `trikubelet get nodes`"),
    **dict.fromkeys(("ev", "event", "events"), "use `trikubelet get events`"),
    **dict.fromkeys(("image", "images"), _GET_IMAGES),
    **dict.fromkeys(("volume", "volumes"), "use `trikubelet get volumes`"),
    **dict.fromkeys(("configmap", "configmaps", "cm"), "use `trikubelet get configmaps`"),
    **dict.fromkeys(("secret", "secrets"), "use `trikubelet get secrets`"),
    **dict.fromkeys(("status", "info", "health", "check", "diagnose"), _STATUS),
    **dict.fromkeys(("create", "up", "add", "deploy", "play", "kube", "replace", "update"), _APPLY),
    **dict.fromkeys(("rm", "remove", "down", "kill", "terminate"), _DELETE),
    "start": f"{_APPLY} to start a pod; `trikubelet help agent` lists the flags that run the agent",
    "stop": f"{_DELETE} to stop a pod; `systemctl stop trikubelet` stops the agent",
    **dict.fromkeys(("enable", "disable", "reload"), "this is for the service: use `systemctl`"),
    **dict.fromkeys(("edit", "patch", "set", "label", "annotate", "scale"), _EDIT),
    "rollout": "use `trikubelet restart POD`, or `trikubelet rollback POD` for the manifest before",
    **dict.fromkeys(("undo", "undelete", "restore", "revert"), "use `trikubelet rollback POD`"),
    **dict.fromkeys(("sh", "bash", "shell", "ssh", "debug", "enter"), _SHELL),
    **dict.fromkeys(("inspect", "show"), _DESCRIBE),
    **dict.fromkeys(("log", "tail", "journal"), "use `trikubelet logs POD`"),
    **dict.fromkeys(("stats", "usage"), "use `trikubelet top pods`"),
    **dict.fromkeys(("forward", "port", "expose", "proxy"), "use `trikubelet port-forward POD PORT`"),
    "copy": "use `trikubelet cp`",
    "explain": "use `trikubelet validate FILE`, which names the fields that it does not know",
    **dict.fromkeys(("lint", "verify", "test"), "use `trikubelet validate FILE`"),
    **dict.fromkeys(("pull", "push", "build", "load", "import"), _PULL),
    **dict.fromkeys(("rmi", "prune", "clean"), _UNUSED),
    **dict.fromkeys(("agent", "server", "serve", "daemon", "kubelet", "init"), _AGENT),
    **dict.fromkeys(("cordon", "uncordon", "drain", "taint", "auth", "certificate", "cluster-info"), _CLUSTER),
    "join": "write `trikubelet --bootstrap-kubeconfig=FILE --kubeconfig=FILE`; see docs/joining.md",
    "api-resources": "there are pods, nodes, events, images, volumes, configmaps and secrets",
    "uninstall": "use `trikubelet reset`, which stops and removes all pods, and then remove the package",
}
"""The advice for an unknown command of that name."""

CAREFUL: Final = ("delete", "reset", "restart", "rollback", "run")
"""Commands that change pods: they are suggested only for a word that is nearly the same."""
CAREFUL_RATIO: Final = 0.8


def hint(word: str, verbs: list[str]) -> str:
    """Return advice for an unknown command."""
    from difflib import SequenceMatcher, get_close_matches  # noqa: PLC0415 - only for a mistake

    if word.lower() in HINTS:
        return HINTS[word.lower()]
    for near in get_close_matches(word.lower(), verbs, n=3, cutoff=0.6):
        if near not in CAREFUL or SequenceMatcher(None, word.lower(), near).ratio() >= CAREFUL_RATIO:
            return f'did you mean "{near}"?'
    return "`trikubelet help` lists the commands"
