"""What a node relies on when it asks an API server who somebody is and what they may."""

from __future__ import annotations

from typing import Any

from contract.api_subject import Subject, tree
from trikubelet.model.api import ACCESS_REVIEWS, SERVICE_ACCOUNTS, TOKEN_REVIEWS


class Reviews:
    """Reviews are answered at once and never stored."""

    async def test_a_token_is_told_to_be_its_service_account_s(self, subject: Subject, clock: object) -> None:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
        made = await subject.api.create(SERVICE_ACCOUNTS, body, subject.namespace, under="default/token")

        told = await reviewed_token(subject, tree(made)["status"]["token"])

        assert told["authenticated"] is True
        assert f"system:serviceaccount:{subject.namespace}:default" == told["user"]["username"]
        assert {"system:authenticated", "system:serviceaccounts"} <= set(told["user"]["groups"])

    async def test_invented_token_has_no_user(self, subject: Subject, clock: object) -> None:
        told = await reviewed_token(subject, "made-up")

        assert (False, "") == (told.get("authenticated", False), told.get("user", {}).get("username", ""))

    async def test_a_right_that_was_given_is_there_and_another_is_not(self, subject: Subject, clock: object) -> None:
        assert await may(subject, "somebody", ["system:masters"])
        assert not await may(subject, "somebody", ["system:authenticated"])


async def reviewed_token(subject: Subject, token: str) -> dict[str, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    return dict(tree(await subject.api.create(TOKEN_REVIEWS, body))["status"])


async def may(subject: Subject, user: str, groups: list[str]) -> bool:
    wanted = {"verb": "get", "version": "v1", "resource": "nodes", "subresource": "proxy", "name": subject.mark}
    spec = {"user": user, "groups": groups, "resourceAttributes": wanted}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return bool(tree(await subject.api.create(ACCESS_REVIEWS, body))["status"]["allowed"])
