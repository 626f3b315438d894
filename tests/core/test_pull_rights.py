"""Who may have an image that is there: the policies, the proofs, what is written down."""

from dataclasses import replace

import pytest

from trikubelet.core.pull_rights import (
    PROOFS_KEPT_MAX,
    VerificationPolicy,
    allowlist_problem,
    proof_of,
    with_proof,
    with_proofs,
)
from trikubelet.model.pull_records import PulledRecord
from trikubelet.model.registry import AccountOwner, Credential, Login, SecretOwner

IMAGE, REF, NOW, LATER = "r.example/app:1", "sha256:1", "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"


def credential(name: str = "s", password: str = "p", uid: str = "u") -> Credential:
    return Credential(Login("joe", password), SecretOwner(uid, "default", name))


OWN = Credential(Login("node", "p"))
ROBOT = AccountOwner("u", "default", "robot")
PULLED = with_proof(None, IMAGE, REF, credential(), NOW)


@pytest.mark.parametrize(
    ("expected", "policy", "ours"),
    [
        (False, VerificationPolicy("NeverVerify"), True),
        (False, VerificationPolicy("NeverVerify"), False),
        (True, VerificationPolicy("NeverVerifyPreloadedImages"), True),
        (False, VerificationPolicy("NeverVerifyPreloadedImages"), False),
        (True, VerificationPolicy("AlwaysVerify"), True),
        (True, VerificationPolicy("AlwaysVerify"), False),
        (True, VerificationPolicy("NeverVerifyAllowlistedImages"), False),
        (False, VerificationPolicy("NeverVerifyAllowlistedImages", ("r.example/app",)), False),
        (False, VerificationPolicy("NeverVerifyAllowlistedImages", ("r.example/*",)), True),
        (True, VerificationPolicy("NeverVerifyAllowlistedImages", ("r.example/a", "r.example/app/*")), False),
        (True, VerificationPolicy("NeverVerifyAllowlistedImages", ("r.exam/*",)), False),
    ],
)
def test_pods_that_must_prove_their_right_to_an_image(expected: bool, policy: VerificationPolicy, ours: bool) -> None:
    assert expected == policy.must_prove(IMAGE, pulled_by_us=ours)


@pytest.mark.parametrize("image", ["busybox", "busybox:1", "docker.io/busybox"])
@pytest.mark.parametrize("allowed", ["busybox", "docker.io/library/busybox", "docker.io/*"])
def test_the_allowlist_knows_short_names_by_their_long_ones(image: str, allowed: str) -> None:
    policy = VerificationPolicy("NeverVerifyAllowlistedImages", (allowed,))
    assert not policy.must_prove(image, pulled_by_us=False)


@pytest.mark.parametrize(
    ("is_good", "pattern"),
    [
        (True, "r.example/app"),
        (True, "r.example/*"),
        (True, "r.example/team/*"),
        (False, "r.example/app:1"),
        (False, "r.example/app@sha256:" + "0" * 64),
        (True, "busybox"),
        (False, "*"),
        (False, "/*"),
        (False, "r.example/*/app"),
        (False, "r.example/a*"),
        (False, " r.example/app"),
        (False, "r.example/APP"),
        (False, ""),
    ],
)
def test_patterns_of_the_allowlist(is_good: bool, pattern: str) -> None:
    assert is_good == (allowlist_problem(pattern) == "")


@pytest.mark.parametrize(
    ("expected", "record", "image", "credentials"),
    [
        (False, None, IMAGE, [credential()]),
        (False, PulledRecord(image_ref=REF, last_updated_time=NOW), IMAGE, [credential()]),
        (True, PULLED, IMAGE, [credential()]),
        (True, PULLED, "r.example/app:2", [credential()]),
        (True, PULLED, "r.example/app@sha256:" + "0" * 64, [credential()]),
        (False, PULLED, "r.example/other:1", [credential()]),
        (False, PULLED, IMAGE, []),
        (False, PULLED, IMAGE, [OWN]),
        (True, PULLED, IMAGE, [credential("other", uid="v")]),
        (True, PULLED, IMAGE, [credential(password="new")]),
        (False, PULLED, IMAGE, [credential("other", "new", "v")]),
        (False, PULLED, IMAGE, [credential(password="new", uid="v")]),
        (True, PULLED, IMAGE, [OWN, credential("other", "new", "v"), credential()]),
        (True, with_proof(None, IMAGE, REF, None, NOW), IMAGE, []),
        (True, with_proof(None, IMAGE, REF, OWN, NOW), IMAGE, []),
        (True, with_proof(PULLED, IMAGE, REF, None, NOW), IMAGE, []),
        (False, with_proof(None, IMAGE, REF, None, NOW), "r.example/other:1", []),
    ],
)
def test_what_proves_a_right(
    expected: bool, record: PulledRecord | None, image: str, credentials: list[Credential]
) -> None:
    assert expected == (proof_of(record, image, credentials) is not None)


@pytest.mark.parametrize(
    ("expected", "login", "owner"),
    [
        (True, "p", ROBOT),
        (True, "new", ROBOT),
        (False, "p", replace(ROBOT, uid="v")),
        (False, "p", replace(ROBOT, namespace="other")),
        (False, "p", SecretOwner(ROBOT.uid, ROBOT.namespace, ROBOT.name)),
        (False, "p", None),
    ],
)
def test_what_a_plugin_pulled_for_an_account_is_for_that_account(
    expected: bool, login: str, owner: AccountOwner | SecretOwner | None
) -> None:
    record = with_proof(None, IMAGE, REF, Credential(Login("joe", "p"), ROBOT), NOW)
    proofs = proof_of(record, IMAGE, [Credential(Login("joe", login), owner)])
    assert expected == (proofs is not None)
    assert record is with_proof(record, IMAGE, REF, Credential(Login("joe", "new"), ROBOT), LATER)
    assert proof_of(PULLED, IMAGE, [Credential(Login("s", "p"), ROBOT)]) is None


def test_only_so_many_accounts_are_kept_the_newest() -> None:
    record = None
    for number in range(PROOFS_KEPT_MAX + 5):
        record = with_proof(record, IMAGE, REF, Credential(Login("j", "p"), replace(ROBOT, uid=f"u{number}")), NOW)
    assert record is not None
    kept = record.credential_mapping["r.example/app"].kubernetes_service_accounts
    assert ["u5", "u104"] == [kept[0].uid, kept[-1].uid]


def test_a_secret_of_a_manifest_is_known_by_its_login_only() -> None:
    record = with_proof(None, IMAGE, REF, credential(uid=""), NOW)
    assert proof_of(record, IMAGE, [credential(uid="")])
    assert proof_of(record, IMAGE, [credential(uid="", password="other")]) is None


def test_a_login_that_was_changed_is_written_down_in_place_of_the_old_one() -> None:
    proofs = proof_of(PULLED, IMAGE, [credential(password="new")])
    assert proofs is not None
    assert 1 == len(proofs.kubernetes_secrets)
    changed = with_proofs(PULLED, IMAGE, proofs, LATER)
    assert LATER == changed.last_updated_time
    assert proof_of(changed, IMAGE, [credential("third", "new", "w")])
    assert proof_of(changed, IMAGE, [credential("third", "p", "w")]) is None


def test_nothing_new_leaves_the_record_as_it_was() -> None:
    proofs = proof_of(PULLED, IMAGE, [credential()])
    assert proofs is not None
    assert PULLED is with_proofs(PULLED, IMAGE, proofs, LATER)
    assert PULLED is with_proof(PULLED, IMAGE, REF, credential(), LATER)


def test_public_image_stays_public() -> None:
    everybodys = with_proof(None, IMAGE, REF, None, NOW)
    assert everybodys is with_proof(everybodys, IMAGE, REF, credential(), LATER)


def test_each_name_of_an_image_has_its_own_proofs() -> None:
    both = with_proof(PULLED, "r.example/mirror:1", REF, credential("m", "q", "v"), LATER)
    assert {"r.example/app", "r.example/mirror"} == both.credential_mapping.keys()
    assert proof_of(both, IMAGE, [credential("m", "q", "v")]) is None


def test_only_so_many_secrets_are_kept_the_newest() -> None:
    record = None
    for number in range(PROOFS_KEPT_MAX + 5):
        record = with_proof(record, IMAGE, REF, credential(f"s{number}", f"p{number}", f"u{number}"), NOW)
    assert record is not None
    proofs = record.credential_mapping["r.example/app"]
    assert PROOFS_KEPT_MAX == len(proofs.kubernetes_secrets)
    assert "s104" == proofs.kubernetes_secrets[-1].name


def test_no_password_is_written_down() -> None:
    assert "hunter2" not in repr(with_proof(None, IMAGE, REF, credential(password="hunter2"), NOW))
