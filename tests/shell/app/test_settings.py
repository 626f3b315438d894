"""Settings: what flags, files and surroundings make of an agent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trikubelet.app.endpoint import DEFAULT, EMBEDDED
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.part_cgroups import named_parts
from trikubelet.app.paths import make_run_dir, places_for
from trikubelet.app.settings import Settings, Surroundings, load_settings
from trikubelet.app.translate import rules_of
from trikubelet.core.image_garbage import ImageRules
from trikubelet.model.bounds import Bounds
from trikubelet.model.errors import StartFailed

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
ROOT = Surroundings(0, {}, "Node-1")
USER = Surroundings(1000, {"HOME": "/home/ann", "XDG_RUNTIME_DIR": "/run/user/1000"}, "laptop")


def settings(*argv: str, surroundings: Surroundings = ROOT) -> Settings:
    return load_settings(parse_agent_flags(argv), surroundings)


@pytest.mark.parametrize("question", ["--help", "--version"])
def test_flags_that_ask_a_question_are_no_settings_for_the_others_would_be_lost(question: str) -> None:
    with pytest.raises(StartFailed, match=f"^{question} only prints"):
        settings("--root-dir=/b", "--container-runtime-endpoint=fake:", question)


def faults_of(*argv: str, surroundings: Surroundings = ROOT) -> list[str]:
    with pytest.raises(StartFailed) as failed:
        settings(*argv, surroundings=surroundings)
    return str(failed.value).split("\n")


@pytest.fixture
def in_a_removed_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()


@pytest.mark.usefixtures("in_a_removed_directory")
@pytest.mark.parametrize(
    "flag",
    [
        "--root-dir=rel",
        "--config=rel",
        "--config-dir=rel",
        "--cert-dir=rel",
        "--lock-file=rel",
        "--pod-manifest-path=rel",
        "--kubeconfig=rel",
    ],
)
def test_a_relative_path_in_a_working_directory_that_is_gone_is_named(flag: str) -> None:
    assert ["rel: the working directory is gone: write an absolute path"] == faults_of(flag)


@pytest.mark.usefixtures("in_a_removed_directory")
def test_without_a_working_directory_absolute_paths_will_do() -> None:
    assert Path("/r") == settings("--root-dir=/r", "--kubeconfig=/k", "--pod-manifest-path=/m").root_dir


def test_root_has_upstreams_places() -> None:
    made = settings("--standalone", "--container-runtime-endpoint=unix:///c.sock")

    assert (
        Path("/var/lib/kubelet"),
        Path("/var/log/pods"),
        Path("/var/log/containers"),
        Path("/var/lib/kubelet/pki"),
        "/etc/kubernetes/manifests",
    ) == (made.root_dir, made.pod_logs_dir, made.container_logs_dir, made.cert_dir, made.manifest_path)


def test_an_ordinary_user_has_the_xdg_places() -> None:
    made = settings("--standalone", surroundings=USER)

    assert (
        Path("/home/ann/.local/state/trikubelet"),
        Path("/home/ann/.local/state/trikubelet/logs/pods"),
        Path("/home/ann/.local/state/trikubelet/logs/containers"),
        Path("/run/user/1000/trikubelet"),
        "/home/ann/.config/trikubelet/manifests",
    ) == (made.root_dir, made.pod_logs_dir, made.container_logs_dir, made.run_dir, made.manifest_path)


def test_xdg_variables_are_followed_when_they_are_absolute() -> None:
    places = places_for(1000, {"HOME": "/home/ann", "XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "relative"})

    assert Path("/s/trikubelet") == places.root_dir
    assert Path("/home/ann/.config/trikubelet/manifests") == places.manifests
    assert Path("/s/trikubelet/run") == places.run_dir


def test_a_users_agent_keeps_everything_below_the_root_directory_it_was_given(tmp_path: Path) -> None:
    made = settings(f"--root-dir={tmp_path}", surroundings=USER)

    assert (tmp_path, tmp_path / "logs/pods", tmp_path / "run") == (made.root_dir, made.pod_logs_dir, made.run_dir)


def test_a_directory_for_sockets_that_cannot_be_made_is_reported_with_the_variable_that_names_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    environment = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "file")}
    places = places_for(1000, environment)

    with pytest.raises(StartFailed) as failed:
        make_run_dir(places.run_dir, places.root_dir)

    assert f"{tmp_path}/file/trikubelet: Not a directory; XDG_RUNTIME_DIR sets it" in str(failed.value)


def test_unwritable_directory_for_sockets_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda _path, _mode: False)  # root may write everywhere

    with pytest.raises(StartFailed, match=f"{tmp_path}/run: Permission denied; the root directory must be writable"):
        make_run_dir(tmp_path / "run", tmp_path)


def test_root_on_the_embedded_runtime_stays_out_of_a_kubelets_places() -> None:
    made = settings("--standalone", "--container-runtime-endpoint=embedded:")
    ours = Path("/var/lib/trikubelet")
    assert (ours, ours / "logs/pods", ours / "logs/containers") == (
        made.root_dir, made.pod_logs_dir, made.container_logs_dir,
    )  # fmt: skip
    on_containerd = settings("--standalone", "--container-runtime-endpoint=unix:///c.sock")
    assert (Path("/var/lib/kubelet"), Path("/var/log/pods")) == (on_containerd.root_dir, on_containerd.pod_logs_dir)


def test_only_standalone_falls_back_to_the_embedded_runtime(tmp_path: Path) -> None:
    nothing_there = Surroundings(0, {}, "node", tmp_path)
    assert EMBEDDED == settings("--standalone", surroundings=nothing_there).runtime.endpoint
    assert DEFAULT == settings(surroundings=nothing_there).runtime.endpoint


@pytest.mark.parametrize(
    ("kubelets", "ours", "expected", "root_dir"),
    [
        ("", "", EMBEDDED, "/var/lib/trikubelet"),
        ("unix:///run/c.sock", "", "unix:///run/c.sock", "/var/lib/kubelet"),
        ("", "embedded:", EMBEDDED, "/var/lib/trikubelet"),
        ("unix:///run/c.sock", "embedded:", "unix:///run/c.sock", "/var/lib/kubelet"),
        ("embedded:", "unix:///run/c.sock", EMBEDDED, "/var/lib/trikubelet"),
        ("fake:", "", EMBEDDED, "/var/lib/trikubelet"),
    ],
    ids=["none", "real", "embedded", "both", "of other agents", "simulated"],
)
def test_the_runtime_that_a_root_directory_has_recorded_is_taken_with_that_directory(
    kubelets: str, ours: str, expected: str, root_dir: str, tmp_path: Path
) -> None:
    for name, endpoint in (("kubelet", kubelets), ("trikubelet", ours)):
        (tmp_path / "var/lib" / name).mkdir(parents=True)
        if endpoint:
            (tmp_path / "var/lib" / name / "runtime-endpoint").write_text(endpoint)

    made = settings("--standalone", surroundings=Surroundings(0, {}, "node", tmp_path))

    assert (expected, Path(root_dir)) == (made.runtime.endpoint, made.root_dir)


def test_a_configured_runtime_and_the_default_without_standalone_need_no_record(tmp_path: Path) -> None:
    (tmp_path / "runtime-endpoint").write_text("embedded:")

    root = f"--root-dir={tmp_path}"
    assert EMBEDDED == settings("--standalone", root).runtime.endpoint
    assert DEFAULT == settings(root).runtime.endpoint
    assert "unix:///x" == settings("--standalone", root, "--container-runtime-endpoint=unix:///x").runtime.endpoint


def test_without_a_home_the_user_is_told_what_is_missing() -> None:
    assert [
        "neither XDG_STATE_HOME nor HOME is set, so there is no place for an ordinary user's files (set HOME)"
    ] == faults_of(surroundings=Surroundings(1000, {}, "n"))


def test_the_configured_log_directory_beats_the_users(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"{HEAD}podLogsDir: /logs\n")

    assert Path("/logs") == settings(f"--config={config}", surroundings=USER).pod_logs_dir


def test_the_nodes_name_is_the_hosts_in_lower_case_or_the_override() -> None:
    assert "node-1" == settings().node_name
    assert "other" == settings("--hostname-override= Other ").node_name
    [fault] = faults_of("--hostname-override=a_b")
    assert fault.startswith("--hostname-override: 'a_b' must be lower case letters")


def test_without_kubeconfig_the_agent_is_standalone_and_says_so() -> None:
    made = settings()

    assert made.standalone
    assert "No --kubeconfig is given: running standalone, with static pods only" in made.notes
    assert not settings("--kubeconfig=/k").standalone
    assert settings("--kubeconfig=/k").manifest_path is None


def test_standalone_beside_a_kubeconfig_is_refused() -> None:
    assert ["--standalone: it means no API server, but --kubeconfig names one (leave one of the two out)"] == faults_of(
        "--standalone", "--kubeconfig=/k"
    )


def test_the_manifests_are_where_the_configuration_says_and_the_default_is_said(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"{HEAD}staticPodPath: manifests\n")

    assert f"{tmp_path}/manifests" == settings(f"--config={config}").manifest_path
    assert "/flag" == settings(f"--config={config}", "--pod-manifest-path=/flag").manifest_path
    assert settings("--manifest-url=http://x/").manifest_path is None
    assert any("/etc/kubernetes/manifests" in note for note in settings().notes)


def test_drop_ins_are_laid_over_the_file_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"{HEAD}maxPods: 1\nhealthzPort: 1\npodsPerCore: 1\n")
    drop_ins = tmp_path / "d"
    (drop_ins / "15-sub").mkdir(parents=True)
    (drop_ins / "10-a.conf").write_text(f"{HEAD}maxPods: 2\nhealthzPort: 2\n")
    (drop_ins / "15-sub/x.conf").write_text(f"{HEAD}healthzPort: 3\n")
    (drop_ins / "20-b.conf").write_text(f"{HEAD}maxPods: 4\n")
    (drop_ins / "README").write_text("not one")

    made = settings(f"--config={tmp_path}/c.yaml", f"--config-dir={drop_ins}", "--pods-per-core=9")

    assert (4, 3, 9) == (made.configuration.max_pods, made.configuration.healthz_port, made.configuration.pods_per_core)
    assert {
        "maxPods": f"{drop_ins}/20-b.conf:3",
        "healthzPort": f"{drop_ins}/15-sub/x.conf:3",
        "podsPerCore": "flag --pods-per-core",
        "--config": "flag --config",
        "--config-dir": "flag --config-dir",
    } == made.provenance
    assert any("README is not a drop-in" in note for note in made.notes)


def test_thresholds_of_eviction_and_rules_for_images_are_the_configurations(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmergeDefaultEvictionSettings: true\n"
        "evictionHard: {memory.available: 1Gi}\nevictionSoft: {pid.available: 10%}\n"
        "evictionSoftGracePeriod: {pid.available: 1m30s}\nevictionMinimumReclaim: {pid.available: '7'}\n"
        "evictionPressureTransitionPeriod: 1m\nevictionMaxPodGracePeriod: 9\nlocalStorageCapacityIsolation: false\n"
        "imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 60\nimageMinimumGCAge: 1m\n"
        "imageMaximumGCAge: 24h\n"
    )

    rules = rules_of(settings("--standalone", f"--config={file}"), Bounds())

    hard = {one.signal: one.value.of(1000) for one in rules.eviction.thresholds if one.is_hard}
    assert {
        "memory.available": 1 << 30,
        "allocatableMemory.available": 1 << 30,
        "nodefs.available": 100,
        "nodefs.inodesFree": 50,
        "imagefs.available": 150,
        "imagefs.inodesFree": 50,
    } == hard
    assert [("pid.available", 100, 90.0, 7)] == [
        (one.signal, one.value.of(1000), one.grace_seconds, one.reclaim.of(1000))
        for one in rules.eviction.thresholds
        if not one.is_hard
    ]
    rest = (rules.eviction.transition_seconds, rules.eviction.grace_seconds_max, rules.eviction.local_limits)
    assert (60.0, 9, False) == rest
    assert ImageRules(70, 60, 60.0, 86400.0) == rules.images


def test_everything_wrong_is_reported_together(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"{HEAD}healthzPort: 70000\nmaxPod: 1\nport: 1\nport: 2\n")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/1.conf").write_text("")
    (tmp_path / "d/2.conf").write_text(f"{HEAD}---\n{HEAD}")
    (tmp_path / "d/3.conf").write_text("a: [")

    faults = faults_of(
        f"--config={tmp_path}/c.yaml",
        f"--config-dir={tmp_path}/d",
        "--max-pods=-1",
        "--node-ip=x",
        "--exit-on-lock-contention",
        "--bootstrap-kubeconfig=/b",
        "--hostname-overide=x",
        "--cloud-provider=aws",
        "--strict-config",
    )

    assert [
        '--hostname-overide: unknown flag (did you mean "--hostname-override"?)',
        f"{tmp_path}/c.yaml:3: healthzPort: Invalid value: 70000: must be between 0 and 65535",
        f'{tmp_path}/c.yaml:4: maxPod: unknown field (did you mean "maxPods"?)',
        f"{tmp_path}/c.yaml:6: port: the key is given twice, first in line 5 (remove one of the two)",
        f"{tmp_path}/d/1.conf:1: the file is empty (write a KubeletConfiguration or remove it)",
        f"{tmp_path}/d/2.conf:4: a second document (put one KubeletConfiguration into one file)",
        "--max-pods: Invalid value: -1: must be 0 or more",
        "--bootstrap-kubeconfig: needs --kubeconfig, to which its result is written",
        "--cloud-provider: 'aws' is unknown: no cloud provider is built in "
        "(write --cloud-provider=external and run the cloud's own controller)",
        "--exit-on-lock-contention: needs --lock-file",
        "--node-ip: 'x' must be an IP address, such as 10.9.8.7 or 2001:db8::ffff",
    ] == [fault for fault in faults if "3.conf" not in fault]
    assert 1 == len([fault for fault in faults if "3.conf" in fault])


UNKNOWN_OR_DOUBLED = {
    "an unknown field": (
        "configTrialDuration: 10m0s\nmaxPods: 7\n",
        ("3: configTrialDuration: unknown field: it is ignored (remove it, or move it where it belongs)",),
    ),
    "an unknown field that is near a known one": (
        "maxPod: 3\nmaxPods: 7\n",
        ('3: maxPod: unknown field: it is ignored (did you mean "maxPods"?)',),
    ),
    "an unknown field in an object": (
        "memorySwap: {swapBehaviour: NoSwap}\nmaxPods: 7\n",
        ('3: memorySwap.swapBehaviour: unknown field: it is ignored (did you mean "swapBehavior"?)',),
    ),
    "an unknown field in an optional object": (
        "tracing: {endpoint: a, sample: 1}\nmaxPods: 7\n",
        ("3: tracing.sample: unknown field: it is ignored (remove it, or move it where it belongs)",),
    ),
    "an unknown field in a list": (
        "maxPods: 7\nregisterWithTaints:\n- {key: a, effect: NoSchedule, color: red}\n",
        ("5: registerWithTaints[0].color: unknown field: it is ignored (remove it, or move it where it belongs)",),
    ),
    "a key that is given twice": (
        "maxPods: 5\nmaxPods: 7\n",
        ("4: maxPods: the key is given twice, first in line 3: the last value holds (remove one of the two)",),
    ),
}


@pytest.mark.parametrize("kind", UNKNOWN_OR_DOUBLED)
@pytest.mark.parametrize("named_by", ["--config={}/c.conf", "--config-dir={}"])
def test_an_unknown_field_or_a_duplicate_key_of_a_configuration_is_a_warning_and_a_fault_with_strict_config(
    tmp_path: Path, kind: str, named_by: str
) -> None:
    text, expected = UNKNOWN_OR_DOUBLED[kind]
    (tmp_path / "c.conf").write_text(HEAD + text)
    flag = named_by.format(tmp_path)

    made = settings(flag)

    assert tuple(f"{tmp_path}/c.conf:{line}" for line in expected) == made.warnings
    assert 7 == made.configuration.max_pods
    assert made.provenance["maxPods"].startswith(f"{tmp_path}/c.conf:")
    (fault,) = faults_of(flag, "--strict-config")
    assert f"{tmp_path}/c.conf:{expected[0]}".replace(": it is ignored", "").replace(": the last value holds", "") == (
        fault
    )


@pytest.mark.parametrize("text", ["featureGates: {NoSuchGate: true}\n", "maxPods: many\n", "cgroupDriver: none\n"])
def test_lenient_decoding_still_refuses_a_wrong_value_and_an_unknown_feature_gate(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(f"{HEAD}{text}configTrialDuration: 10m0s\n")

    (fault,) = faults_of(f"--config={tmp_path}/c.yaml")

    assert fault.startswith(f"{tmp_path}/c.yaml:3: ")


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    assert [
        f"--config-dir: {tmp_path}/e cannot be read: No such file or directory",
        f"{tmp_path}/d: cannot be read: No such file or directory",
    ] == faults_of(f"--config={tmp_path}/d", f"--config-dir={tmp_path}/e")


def test_what_can_be_no_configuration_is_reported_and_not_read_for_ever(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert [f"{tmp_path}/pipe: cannot be read: it is a pipe without a writer"] == faults_of(f"--config={tmp_path}/pipe")
    assert ["/dev/zero: cannot be read: it is larger than 4194304 bytes"] == faults_of("--config=/dev/zero")


def test_settings_without_effect_are_one_warning_with_their_places(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"{HEAD}iptablesDropBit: 5\nlogging: {{verbosity: 2}}\n")
    made = settings(f"--config={config}", "--cloud-config=/x", "--oom-score-adj=-1")

    assert (
        "These settings have no effect in this version of the agent: --cloud-config, "
        f"iptablesDropBit ({config}:3), oomScoreAdj (flag --oom-score-adj)",
    ) == made.warnings
    assert () == settings("--v=2").warnings


def test_cgroups_of_the_nodes_parts_have_an_effect() -> None:
    named = ("--runtime-cgroups=/r", "--kubelet-cgroups=/k", "--system-cgroups=/s", "--cgroup-root=/")
    made = settings(*named)

    assert {"runtime": "/r", "kubelet": "/k", "misc": "/s"} == named_parts(made)
    assert () == made.warnings
    assert {} == named_parts(settings("--v=2"))


def test_an_unspecified_node_ip_leaves_the_choice_to_the_routes() -> None:
    assert () == settings("--node-ip=0.0.0.0").node_ips
    assert ("10.0.0.1", "fd00::1") == settings("--node-ip=10.0.0.1,fd00::1").node_ips


def test_a_node_ip_is_kept_as_it_is_written_everywhere_else() -> None:
    assert ("fd00::1",) == settings("--node-ip=FD00:0:0::1").node_ips
    assert ((), "::") == (settings("--node-ip=0:0::0").node_ips, settings("--node-ip=0:0::0").node_ip_family)


@pytest.mark.parametrize(
    ("node_ip", "says"),
    [
        ("127.0.0.1", "'127.0.0.1' is a loopback address"),
        ("::1", "'::1' is a loopback address"),
        ("224.0.0.1", "'224.0.0.1' is a multicast address"),
        ("fe80::1", "'fe80::1' is a link-local address"),
        ("169.254.1.1", "'169.254.1.1' is a link-local address"),
        ("10.0.0.1,10.0.0.2", "'10.0.0.1,10.0.0.2' must be one address, or one of each family"),
        ("10.0.0.1,fd00::1,fd00::2", "must be one address, or one of each family"),
        ("10.0.0.1,::", "'10.0.0.1,::' cannot name 0.0.0.0 or :: beside another address"),
    ],
)
def test_unreachable_node_ip_is_rejected(tmp_path: Path, node_ip: str, says: str) -> None:
    with pytest.raises(StartFailed) as caught:
        settings(f"--node-ip={node_ip}", f"--kubeconfig={tmp_path}/k")

    (line,) = str(caught.value).splitlines()
    assert says in line


def test_standalone_node_may_have_the_loopback_address() -> None:
    assert ("127.0.0.1",) == settings("--node-ip=127.0.0.1").node_ips


def test_a_cloud_provider_is_external_or_none() -> None:
    assert settings("--cloud-provider=external").external_cloud
    assert not settings("--cloud-provider=").external_cloud


def test_endpoints_locks_and_gates_are_carried() -> None:
    made = settings(
        "--container-runtime-endpoint=unix:///a",
        "--image-service-endpoint=unix:///b",
        "--lock-file=/l",
        "--exit-on-lock-contention",
        "--feature-gates=EventedPLEG=true",
        "--v=3",
        "--logging-format=json",
    )

    assert ("unix:///a", "unix:///b", Path("/l"), True) == (
        made.runtime.endpoint,
        made.image_endpoint,
        made.lock_file,
        made.exit_on_lock_contention,
    )
    assert made.gate("EventedPLEG")
    assert (3, "json") == (made.verbosity, made.configuration.logging.format)


def test_a_label_the_cluster_would_refuse_is_refused_at_the_start_with_its_flag_and_what_is_allowed() -> None:
    first, second = faults_of("--standalone", "--node-labels=kubernetes.io/evil=x,a=b,node-role.kubernetes.io/master=")

    assert first.startswith("--node-labels: 'kubernetes.io/evil' is a label of Kubernetes itself")
    assert second.startswith("--node-labels: 'node-role.kubernetes.io/master' is")
    assert "topology.kubernetes.io/zone" in first


def test_messages_of_the_runtime_may_be_longer_than_upstreams_within_bounds() -> None:
    assert 16 * 2**20 == settings().runtime_message_bytes_max
    assert 64 * 2**20 == settings("--runtime-message-mib=64").runtime_message_bytes_max
    for wrong in (15, 257, 0, -1):
        with pytest.raises(
            StartFailed, match=rf"^--runtime-message-mib: {wrong} MiB is not a valid limit .* \(16 to 256\)$"
        ):
            settings(f"--runtime-message-mib={wrong}")


def test_an_image_directory_is_absolute_and_needs_a_runtime_that_can_import(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    containerd = "--container-runtime-endpoint=unix:///run/containerd/containerd.sock"
    assert None is settings(containerd).image_directory
    assert tmp_path / "images" == settings(containerd, "--image-directory=images").image_directory
    with pytest.raises(
        StartFailed, match=r"^--image-directory: embedded: imports no images \(use containerd or CRI-O\)$"
    ):
        settings("--container-runtime-endpoint=embedded:", "--image-directory=images")


@pytest.mark.parametrize(
    ("written", "seconds"), [("", 30), ("0s", 0), ("0", 0), ("1500ms", 2), ("2m", 120), ("1h", 3600)]
)
def test_pods_of_the_embedded_runtime_have_whole_seconds_to_end(written: str, seconds: int) -> None:
    words = [f"--embedded-stop-grace-period={written}"] if written else []
    assert seconds == settings(*words).embedded_stop_seconds


@pytest.mark.parametrize(("written", "seconds"), [("", 300.0), ("0s", 0.0), ("90s", 90.0), ("5m", 300.0)])
def test_time_that_pods_wait_for_a_device_plugin_is_the_flags(written: str, seconds: float) -> None:
    words = [f"--device-plugin-wait={written}"] if written else []
    assert seconds == settings(*words).device_wait_seconds


@pytest.mark.parametrize(("written", "why"), [("soon", "'soon' is not a duration"), ("6m", "'6m' is longer than 5m0s")])
def test_wait_for_a_device_plugin_that_is_none_is_refused_with_its_flag(written: str, why: str) -> None:
    with pytest.raises(StartFailed, match=f"^--device-plugin-wait: {why}"):
        settings(f"--device-plugin-wait={written}")


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("-1s", r"'-1s' is negative"),
        ("30", r"'30' is not a duration"),
        ("61m", r"'61m' is longer than 1h0m0s"),
    ],
)
def test_a_grace_period_that_is_none_is_refused_with_its_flag(written: str, why: str) -> None:
    with pytest.raises(StartFailed, match=f"^--embedded-stop-grace-period: {why}"):
        settings(f"--embedded-stop-grace-period={written}")
