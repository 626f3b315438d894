"""The agent's flags: Go's ways of writing them, every fault at once, upstream's names."""

from __future__ import annotations

import pytest

from trikubelet.app.flag_help import build_parser
from trikubelet.app.flag_table import FLAGS, Form
from trikubelet.app.flags import AgentFlags, parse_agent_flags
from trikubelet.core.configuration import FieldSetting
from trikubelet.core.document import Document
from trikubelet.core.structure import examine
from trikubelet.model.kubelet_configuration import KubeletConfiguration


def setting(*argv: str) -> dict[str, object]:
    """Return the fields that flags set, by field path."""
    return {".".join(one.place): one.value for one in parse_agent_flags(argv).settings}


def faults_of(*argv: str) -> list[str]:
    return [str(fault) for fault in parse_agent_flags(argv).faults]


def test_no_flags_are_an_agent_with_defaults() -> None:
    assert AgentFlags() == parse_agent_flags([])


@pytest.mark.parametrize(
    "argv", [["--max-pods=7"], ["--max-pods", "7"], ["--max_pods=7"], ["--max-pods=1", "--max-pods=7"]]
)
def test_a_value_may_stand_behind_an_equals_sign_or_a_space_and_the_last_one_counts(argv: list[str]) -> None:
    assert {"maxPods": 7} == setting(*argv)


def test_a_value_may_begin_with_a_dash() -> None:
    assert {"oomScoreAdj": -999} == setting("--oom-score-adj", "-999")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("--register-node", True),
        ("--register-node=false", False),
        ("--register-node=F", False),
        ("--register-node=1", True),
    ],
)
def test_a_switch_is_written_as_in_go(word: str, value: bool) -> None:
    assert {"registerNode": value} == setting(word)


def test_a_switch_takes_no_value_behind_a_space() -> None:
    assert ["false: unexpected argument (the agent takes only flags)"] == faults_of("--register-node", "false")


def test_flags_behind_a_stray_word_are_read() -> None:
    said = faults_of("--max-pods", "3", "stray", "--nonsense", "--max-pods=x", "--", "--v=2")

    assert ["stray", "--nonsense", "--v=2", "--max-pods"] == [line.partition(":")[0] for line in said]


@pytest.mark.parametrize("argv", [["-v", "4"], ["-v=4"], ["-v4"], ["--v=4"], ["--v", "4"]])
def test_verbosity_has_a_short_form(argv: list[str]) -> None:
    assert {"logging.verbosity": 4} == setting(*argv)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("--cluster-dns=10.0.0.1, 10.0.0.2", ["10.0.0.1", "10.0.0.2"]),
        ("--kube-reserved=cpu=100m,memory=1Gi", {"cpu": "100m", "memory": "1Gi"}),
        (
            "--eviction-hard=memory.available<100Mi,nodefs.available<10%",
            {"memory.available": "100Mi", "nodefs.available": "10%"},
        ),
        ("--manifest-url-header=a:b,a:c,d:e:f", {"a": ["b", "c"], "d": ["e:f"]}),
        (
            "--register-with-taints=k=v:NoSchedule,q:NoExecute",
            [{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "q", "value": "", "effect": "NoExecute"}],
        ),
        ("--vmodule=pleg*=5", [{"filePattern": "pleg*", "verbosity": 5}]),
        (
            "--reserved-memory=0:memory=1Gi;1:memory=2Gi",
            [{"numaNode": 0, "limits": {"memory": "1Gi"}}, {"numaNode": 1, "limits": {"memory": "2Gi"}}],
        ),
        ("--sync-frequency=10s", "10s"),
        ("--max-pods=0x10", 16),
        ("--max-pods=010", 8),
    ],
)
def test_each_form_becomes_what_the_configuration_holds_there(word: str, value: object) -> None:
    assert [value] == list(setting(word).values())


def test_lists_and_maps_grow_when_their_flag_is_repeated() -> None:
    assert {"clusterDNS": ["10.0.0.1", "10.0.0.2"]} == setting("--cluster-dns=10.0.0.1", "--cluster-dns=10.0.0.2")
    assert {"a": "1", "b": "2"} == parse_agent_flags(["--node-labels=a=1", "--node-labels=b=2"]).node_labels


def test_feature_gates_are_settings_of_their_own() -> None:
    assert (
        FieldSetting(("featureGates", "A"), True, "--feature-gates"),
        FieldSetting(("featureGates", "B"), False, "--feature-gates"),
    ) == parse_agent_flags(["--feature-gates=A=true", "--feature-gates=B=false"]).settings


def test_what_only_flags_can_say_stands_beside_the_settings() -> None:
    flags = parse_agent_flags(
        ["--config=/c", "--config-dir=/d", "--kubeconfig=/k", "--standalone", "--hostname-override=N",
         "--node-ip=10.0.0.1,fd00::1", "--cloud-provider=external", "--root-dir=/r", "--cert-dir=/p",
         "--lock-file=/l", "--exit-on-lock-contention"]
    )  # fmt: skip

    assert (
        AgentFlags(
            config="/c", config_dir="/d", kubeconfig="/k", standalone=True, hostname_override="N",
            node_ip=("10.0.0.1", "fd00::1"), cloud_provider="external", root_dir="/r", cert_dir="/p", lock_file="/l",
            exit_on_lock_contention=True,
        )
        == flags
    )  # fmt: skip


def test_flags_that_are_only_tolerated_are_named() -> None:
    flags = parse_agent_flags(["--pod-infra-container-image=pause", "--cloud-config=/c", "--v=2"])

    assert ("--pod-infra-container-image", "--cloud-config") == flags.without_effect


def test_all_faults_come_at_once_with_the_nearest_names() -> None:
    assert [
        '--max-pod: unknown flag (did you mean "--max-pods"?)',
        "--nope: unknown flag (`trikubelet help agent` lists them)",
        '-kubeconfig: unknown flag (did you mean "--kubeconfig"?)',
        "--config: missing argument (write --config=PATH)",
        "--port: invalid value: 'x' is not a whole number (write --port=N)",
        "--register-node: invalid value: 'maybe' is not true or false (write --register-node=true|false)",
        "--kube-reserved: invalid value: 'cpu' is not a key and a value, KEY=VALUE (write --kube-reserved=K=V,K=V)",
        "--register-with-taints: invalid value: 'a' is not a taint, KEY=VALUE:EFFECT "
        "(write --register-with-taints=KEY=VALUE:EFFECT,…)",
        "--feature-gates: invalid value: missing bool value for A: write A=true or A=false "
        "(write --feature-gates=NAME=true|false,…)",
    ] == faults_of(
        "--max-pod=3", "--nope", "-kubeconfig=/x", "--port=x", "--register-node=maybe", "--kube-reserved=cpu",
        "--register-with-taints=a", "--feature-gates=A", "--config",
    )  # fmt: skip


def test_help_and_version_are_asked_for_by_flags() -> None:
    assert "help" == parse_agent_flags(["--help", "--nonsense"]).show
    assert "help" == parse_agent_flags(["-h"]).show
    assert "version" == parse_agent_flags(["--version"]).show


def test_the_help_names_every_flag_once() -> None:
    words = build_parser().format_help().split()

    assert not [name for name in FLAGS if f"--{name}" not in words]


def test_every_flag_with_a_field_names_one_that_exists_and_takes_its_form() -> None:
    examples = {
        Form.TEXT: "x", Form.PATH: "x", Form.BOOL: True, Form.INT: 1, Form.DURATION: "1s", Form.LIST: ["x"],
        Form.MAP: {"a": "b"},
        Form.THRESHOLDS: {"a": "b"}, Form.HEADERS: {"a": ["b"]}, Form.GATES: {"AllAlpha": False}, Form.FLOAT: 1.0,
        Form.TAINTS: [{"key": "k", "value": "", "effect": "NoExecute"}],
        Form.MODULES: [{"filePattern": "a", "verbosity": 1}], Form.MEMORY: [{"numaNode": 0, "limits": {"memory": "1"}}],
    }  # fmt: skip
    for flag in FLAGS.values():
        if flag.field:
            value: object = examples[flag.form]
            for name in reversed(flag.field.split(".")):
                value = {name: value}
            faults = examine(Document(value, "", 0), KubeletConfiguration).faults
            assert not [fault for fault in faults if not fault.problem.startswith("Unsupported value")], flag


# What kubeadm, its units and the common installers pass.
@pytest.mark.parametrize(
    "name",
    [
        "bootstrap-kubeconfig", "cert-dir", "cgroup-driver", "cloud-provider", "config", "config-dir",
        "container-runtime-endpoint", "exit-on-lock-contention", "feature-gates", "hostname-override",
        "image-service-endpoint", "kubeconfig", "lock-file", "logging-format", "manifest-url", "manifest-url-header",
        "node-ip", "node-labels", "pod-infra-container-image", "pod-manifest-path", "register-node",
        "register-with-taints", "root-dir", "v", "version", "vmodule", "standalone",
    ],
)  # fmt: skip
def test_the_flags_that_units_pass_are_known(name: str) -> None:
    assert name in FLAGS
