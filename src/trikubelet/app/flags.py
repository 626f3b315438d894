"""Parses the agent's flags and checks their form, not their meaning.

    argv ─► arguments (--name=value, --name value, --bool, -v N) ─► texts by flag ─► values ─► AgentFlags

The rules are Go's, which units and scripts rely on: ``--register-node=false`` but never ``--register-node false``, a
value may begin with a dash, underscores are dashes, a repeated list grows. argparse has other rules and stops at the
first fault, so it only formats the help (``app.flag_help``). ``app.settings`` and ``core.configuration`` check the
values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Literal

from msgspec import field

from trikubelet.app.flag_help import SHORT
from trikubelet.app.flag_table import FLAGS, Flag, Form
from trikubelet.app.flag_values import read
from trikubelet.core.configuration import FieldSetting
from trikubelet.core.field_path import place_of
from trikubelet.core.masking import MASK, mask_url
from trikubelet.model.faults import Fault, nearest
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence


class AgentFlags(Frozen):
    """The flags on the command line. Empty texts count as not given. ``settings``: the fields of the configuration that
    flags set; ``without_effect``: the flags that are only accepted, with their dashes; ``faults``: the errors in the
    others, which ``app.settings`` reports together with the faults of files."""

    config: str = ""
    config_dir: str = ""
    strict_config: bool = False
    kubeconfig: str = ""
    bootstrap_kubeconfig: str = ""
    standalone: bool = False
    hostname_override: str = ""
    node_ip: tuple[str, ...] = ()
    node_labels: Mapping[str, str] = field(default_factory=dict)
    cloud_provider: str = ""
    kubectl_port: int = 0
    runtime_cgroups: str = ""
    runtime_message_mib: int = 16
    embedded_stop_grace_period: str = "30s"
    device_plugin_wait: str = "5m"
    image_directory: str = ""
    end_unknown_pods: bool = False
    share_runtime: bool = False
    root_dir: str = ""
    cert_dir: str = ""
    image_credential_provider_config: str = ""
    image_credential_provider_bin_dir: str = ""
    lock_file: str = ""
    exit_on_lock_contention: bool = False
    settings: tuple[FieldSetting, ...] = ()
    without_effect: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    show: Literal["help", "version"] | None = None


def parse_agent_flags(argv: Sequence[str]) -> AgentFlags:
    """Return the flags of an agent's command line, without the program's name. Raises nothing: see
    ``AgentFlags.faults``."""
    faults: list[Fault] = []
    texts = _texts(argv, faults)
    values: dict[str, object] = {}
    for name, given in texts.items():
        try:
            values[name] = read(FLAGS[name].form, given)
        except ValueError as wrong:
            faults.append(
                Fault(f"--{name}", None, "", f"invalid value: {wrong}", f"write --{name}={FLAGS[name].form.value}")
            )
    if values.get("help"):
        return AgentFlags(show="help")
    if values.get("version") and not faults:
        return AgentFlags(show="version")
    return _flags(values, faults)


def said_by_flags_alone(flags: AgentFlags) -> dict[str, str]:
    """Return the flags that set no field of the configuration and have another value than their default, with their
    dashes, and that value in the form of the command line."""
    default = AgentFlags()
    found = {}
    for one in fields(AgentFlags):
        name, value = one.name.replace("_", "-"), getattr(flags, one.name)
        if name in FLAGS and value != getattr(default, one.name):
            found[f"--{name}"] = _written(value)
    return found


def written_again(argv: Sequence[str]) -> list[str]:
    """Return the flags in a form that works from any directory: ``--name=value`` each, paths absolute, and ``<masked>``
    in place of secrets: the values of headers, and parts of a URL that may be a password or a token."""
    return [
        f"--{name}" if (text, FLAGS[name].form) == ("true", Form.BOOL) else f"--{name}={text}"
        for name, texts in _texts(argv, []).items()
        for text in (_typed_again(FLAGS[name].form, one) for one in texts)
    ]


def _typed_again(form: Form, text: str) -> str:
    if form is Form.PATH and text and not text.startswith("/"):
        with suppress(OSError):  # the working directory is gone
            return os.path.join(os.getcwd(), text)
    if form is Form.HEADERS:
        return ",".join(f"{one.partition(':')[0]}:{MASK}" for one in text.split(","))
    return mask_url(text) if "://" in text and not text.startswith("unix:") else text


def _written(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(value)
        case Mapping():
            return ",".join(f"{name}={one}" for name, one in value.items())
        case _:
            return str(value)


def _texts(argv: Sequence[str], faults: list[Fault]) -> dict[str, list[str]]:
    """Return each flag's texts, in the order they were given."""
    texts: dict[str, list[str]] = {}
    arguments = iter(argv)
    for argument in arguments:
        if argument == "--" or not argument.startswith("-") or argument == "-":
            unexpected = [argument] if argument != "--" else list(arguments)
            faults += [Fault(one, None, "", "unexpected argument", "the agent takes only flags") for one in unexpected]
            continue
        name, equals, text = _name_of(argument).partition("=")
        flag = FLAGS.get(name)
        if flag is None:
            shown = argument.partition("=")[0]
            remedy = nearest(name.lstrip("-"), FLAGS, "--") or "`trikubelet help agent` lists them"
            faults.append(Fault(shown, None, "", "unknown flag", remedy))
            continue
        if not equals:
            if flag.form is Form.BOOL:
                text = "true"
            elif (following := next(arguments, None)) is None:
                faults.append(Fault(f"--{name}", None, "", "missing argument", f"write --{name}={flag.form.value}"))
                continue
            else:
                text = following
        texts.setdefault(name, []).append(text)
    return texts


def _name_of(argument: str) -> str:
    """Return an argument's flag, with its value if there is one: ``name=value``."""
    for short, name in SHORT.items():
        rest = argument.removeprefix(short)
        if rest != argument and (not rest or rest[0] == "=" or rest.isdigit()):
            return f"{name}={rest.removeprefix('=')}" if rest else name
    name, equals, text = argument.lstrip("-").partition("=")
    if not argument.startswith("--"):
        return f"-{name}{equals}{text}"  # no flag has such a name
    return f"{name.replace('_', '-')}{equals}{text}"


def _flags(values: Mapping[str, object], faults: Sequence[Fault]) -> AgentFlags:
    own: dict[str, object] = {}
    settings: list[FieldSetting] = []
    for name, value in values.items():
        flag = FLAGS[name]
        if flag.field:
            settings += _settings(flag, value)
        elif (attribute := name.replace("-", "_")) in AgentFlags.__dataclass_fields__:
            own[attribute] = tuple(value) if isinstance(value, list) else value
    ignored = tuple(f"--{name}" for name in values if not FLAGS[name].effect)
    return AgentFlags(
        **own,  # type: ignore[arg-type]  # the table's forms are the attributes' types
        settings=tuple(settings),
        without_effect=ignored,
        faults=tuple(faults),
    )


def _settings(flag: Flag, value: object) -> list[FieldSetting]:
    said = f"--{flag.name}"
    if flag.form is Form.GATES:
        assert isinstance(value, dict)
        return [FieldSetting((flag.field, gate), on, said) for gate, on in value.items()]
    return [FieldSetting(place_of(flag.field), value, said)]
