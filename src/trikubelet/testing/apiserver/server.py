"""The memory API server: the effect of each request, at once and without a connection.

It outlives every agent and every connection, as a cluster does; ``testing.memory_api`` is its client. Requests are
synchronous, so they are serialized, as by etcd. Errors are those of ``model.api_errors``, with messages like a real
server's.
"""

from __future__ import annotations

import base64
import random
import uuid
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from trikubelet.core.timestamps import SECOND_NS, rfc3339
from trikubelet.model.api import PODS, Change, ChangeKind, Item, Page, PatchKind, Resource
from trikubelet.model.api_errors import Conflict, Expired, Invalid, ObjectExists, ObjectMissing, Refused
from trikubelet.model.names import subdomain_problem
from trikubelet.testing.apiserver import kinds
from trikubelet.testing.apiserver.patches import PatchBroken, merge, strategic_merge
from trikubelet.testing.apiserver.selectors import selector
from trikubelet.testing.apiserver.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trikubelet.model.api import Selection
    from trikubelet.testing.apiserver.patches import Tree
    from trikubelet.testing.apiserver.selectors import Selector
    from trikubelet.testing.apiserver.store import Key, Write

_SYSTEM_FIELDS = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
)
_NAME_CHARS = "bcdfghjklmnpqrstvwxz2456789"


class StreamedLists(Enum):
    """The answer to a watch with ``sendInitialEvents``: the initial events, a refusal, or, from a server that does not
    know it, the objects without the bookmark at their end."""

    OFFERED = "offered"
    REFUSED = "refused"
    IGNORED = "ignored"


class ApiServer:
    """Owns a cluster's objects (``store``) and its namespaces. ``now_ns`` is its wall clock. ``tokens`` are users by
    their tokens, ``rights`` the permissions: user, verb, and resource with subresource; ``system:masters`` have all."""

    def __init__(self, now_ns: Callable[[], int], seed: int = 0, writes_kept_max: int = 1000) -> None:
        self.store = Store(writes_kept_max)
        self.namespaces = {"default", "kube-system", "kube-public", "kube-node-lease"}
        self.streamed_lists = StreamedLists.OFFERED
        self.tokens: dict[str, Tree] = {}
        self.rights: set[tuple[str, str, str]] = set()
        self.reviewers = {"tokenreviews": self._whose, "subjectaccessreviews": self._may}
        self._tokens_made = 0
        self._now_ns = now_ns
        self._chance = random.Random(seed)  # noqa: S311 - names and UIDs that a run can repeat

    # ---- reading ----

    def get(self, resource: Resource, name: str, namespace: str = "") -> Item:
        """One object. Raises ObjectMissing."""
        return item_of(self._existing(resource, _key(resource, namespace, name)))

    def list(
        self,
        resource: Resource,
        selection: Selection,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        lag_versions: int = 0,
        heard: int | None = None,
    ) -> Page:
        """A page of objects. A list that may be stale is ``lag_versions`` versions old, as one from a cache is, but
        never older than requested. ``heard``: up to which version the cache has received writes, where it is cut off
        from the store; a consistent list comes from the store itself. Raises Expired, Refused."""
        if continue_token:
            version, after = _token_read(continue_token)
        elif resource_version:
            newest = self._newest(resource_version, heard)
            version, after = max(_version(resource_version), newest - lag_versions), ("", "")
        else:
            version, after = self.store.version, ("", "")
        meant_by, objects = selector(selection, resource), self.store.at(resource, version)
        meant = [(key, tree) for key, tree in objects.items() if key > after and meant_by(tree)]
        part = meant[:limit] if limit else meant
        more = _token(version, part[-1][0]) if len(part) < len(meant) else ""
        return Page(iter([item_of(tree, listed=True) for _, tree in part]), str(version), more)

    def changes_since(self, resource: Resource, selection: Selection, resource_version: str) -> Sequence[Change]:
        """The changes that a watch from that version has at once; none for a future version. Raises Expired."""
        version = _version(resource_version)
        writes = self.store.since(min(version, self.store.version))
        meant_by = selector(selection, resource)
        return [change for write in writes if (change := change_of(write, resource, meant_by))]

    def initial(
        self, resource: Resource, selection: Selection, resource_version: str = "", heard: int | None = None
    ) -> Sequence[Change]:
        """The initial events of a watch with ``sendInitialEvents``, at least as new as a version. ``heard`` as for
        ``list``. Raises Invalid where that is not offered, and Expired for a future version."""
        if self.streamed_lists is StreamedLists.REFUSED:
            raise Invalid("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch")
        version = self._newest(resource_version, heard) if resource_version else self.store.version
        objects = self.store.at(resource, version).values()
        meant_by = selector(selection, resource)
        there = [Change(ChangeKind.ADDED, item_of(tree)) for tree in objects if meant_by(tree)]
        if self.streamed_lists is StreamedLists.IGNORED:
            return there
        return [*there, _bookmark(version, initial_end=True)]

    def bookmark(self) -> Change:
        """A bookmark at the newest version."""
        return _bookmark(self.store.version)

    def _newest(self, resource_version: str, heard: int | None) -> int:
        """The newest version a cache has. Raises Expired where a newer one was requested."""
        newest = self.store.version if heard is None else heard
        if _version(resource_version) > newest:
            raise Expired(f"Too large resource version: {resource_version}, current: {newest}", "Timeout")
        return newest

    # ---- writing ----

    def create(self, resource: Resource, body: object, namespace: str = "", under: str = "") -> Item:
        """Create an object. Raises ObjectExists, ObjectMissing for its namespace, Invalid, Refused."""
        tree = _tree(body)
        if under:
            return self._token(resource, tree, namespace, under)
        if (review := self.reviewers.get(resource.plural)) is not None:
            return Item("", "", "", "", msgspec.json.encode(tree | {"metadata": {}, "status": review(tree["spec"])}))
        meta = tree.get("metadata", {})
        if meta.get("resourceVersion"):
            raise Invalid("metadata.resourceVersion: Invalid value: must not be set on objects to be created")
        namespace = self._namespace(resource, meta, namespace)
        name = meta.get("name") or self._generated(meta.get("generateName", ""))
        self._check_name(resource, name)
        key = _key(resource, namespace, name)
        if self.store.get(resource, key) is not None:
            raise ObjectExists(f'{resource.plural} "{name}" already exists', "AlreadyExists")
        given = {k: v for k, v in meta.items() if k not in _SYSTEM_FIELDS}
        system = {
            "name": name,
            "uid": str(uuid.UUID(int=self._chance.getrandbits(128), version=4)),
            "creationTimestamp": rfc3339(self._now_ns()),
        }
        system |= {"namespace": namespace} if resource.namespaced else {}
        system |= {"generation": 1} if kinds.kind_of(resource).has_generation else {}
        tree |= {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": given | system}
        return item_of(self.store.put(resource, key, kinds.new_object(resource, tree)))

    def replace(self, resource: Resource, name: str, body: object, namespace: str = "", subresource: str = "") -> Item:
        """Replace an object. Raises ObjectMissing, Conflict, Invalid, Refused."""
        key, new = _key(resource, namespace, name), _tree(body)
        if kinds.kind_of(resource).put_creates and self.store.get(resource, key) is None:
            return self._put_new(resource, name, new, namespace)
        old = self._existing(resource, key)
        if new.get("metadata", {}).get("name") != name:
            raise Refused("the name of the object does not match the name on the URL", "BadRequest")
        if kinds.kind_of(resource).needs_version and not new["metadata"].get("resourceVersion"):
            raise Invalid("metadata.resourceVersion: Invalid value: must be specified for an update")
        return self._update(resource, key, old, new, subresource)

    def _put_new(self, resource: Resource, name: str, tree: Tree, namespace: str) -> Item:
        """Create the object of a PUT where none is, unless the PUT has a UID."""
        meta = tree.get("metadata", {})
        if meta.get("uid"):
            raise Conflict(f'{resource.plural} "{name}": no object has the UID {meta["uid"]}', "Conflict")
        fresh = {k: v for k, v in meta.items() if k != "resourceVersion"}
        return self.create(resource, tree | {"metadata": fresh}, namespace)

    def patch(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str = "",
        *,
        kind: PatchKind,
        subresource: str = "",
    ) -> Item:
        """Merge into an object. Raises ObjectMissing, Conflict, Invalid, Refused."""
        key = _key(resource, namespace, name)
        old, patch = self._existing(resource, key), _tree(body)
        try:
            if kind is PatchKind.STRATEGIC:
                new = strategic_merge(old, patch, kinds.kind_of(resource).merged)
            else:
                new = merge(old, patch)
        except PatchBroken as error:
            raise Refused(str(error), "BadRequest") from error
        return self._update(resource, key, old, new, subresource)

    def delete(
        self, resource: Resource, name: str, namespace: str = "", grace_seconds: int | None = None, uid: str = ""
    ) -> None:
        """Remove an object, or begin its graceful deletion. Raises ObjectMissing, Conflict."""
        key = _key(resource, namespace, name)
        old = self._existing(resource, key)
        _check_uid(resource, old, uid)
        graceful = kinds.kind_of(resource).ends_gracefully
        new = kinds.ending(old, grace_seconds, self._now_ns()) if graceful else None
        if new is None and old["metadata"].get("finalizers"):
            new = kinds.held_back(old, self._now_ns())
        if new is None:
            self.store.remove(resource, key)
        elif new != old:
            self.store.put(resource, key, new)

    def _token(self, resource: Resource, request: Tree, namespace: str, under: str) -> Item:
        """A token of a service account, bound to a pod. Each is unique, and names its account."""
        name, _, subresource = under.partition("/")
        if (resource.plural, subresource) != ("serviceaccounts", "token"):
            raise ObjectMissing("the server could not find the requested resource", "NotFound")
        self._existing(resource, (namespace, name))
        spec = request["spec"]
        if (bound := spec.get("boundObjectRef")) is not None:
            _check_uid(PODS, self._existing(PODS, (namespace, bound["name"])), bound.get("uid", ""))
        self._tokens_made += 1
        seconds = spec.get("expirationSeconds", 3600)
        status = {
            "token": f"token-{self._tokens_made}-of-{namespace}-{name}-for-{','.join(spec.get('audiences', []))}",
            "expirationTimestamp": rfc3339(self._now_ns() + seconds * SECOND_NS),
        }
        user = f"system:serviceaccount:{namespace}:{name}"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        self.tokens[status["token"]] = {"username": user, "groups": groups}
        meta = {"name": name, "namespace": namespace}
        reply = request | {"metadata": meta, "spec": spec | {"expirationSeconds": seconds}, "status": status}
        return Item(namespace, name, "", "", msgspec.json.encode(reply))

    def _whose(self, asked: Tree) -> Tree:
        """Return the answer of a TokenReview: the user of a token."""
        user = self.tokens.get(asked["token"])
        return {"user": {}} if user is None else {"authenticated": True, "user": user}

    def _may(self, asked: Tree) -> Tree:
        """Return the answer of a SubjectAccessReview: whether the user may do it."""
        wanted = asked["resourceAttributes"]
        what = f"{wanted['resource']}/{wanted['subresource']}" if wanted.get("subresource") else wanted["resource"]
        right = (asked.get("user", ""), wanted.get("verb", ""), what)
        return {"allowed": "system:masters" in asked.get("groups", ()) or right in self.rights}

    # ---- shared ----

    def _existing(self, resource: Resource, key: Key) -> Tree:
        tree = self.store.get(resource, key)
        if tree is None:
            raise ObjectMissing(f'{resource.plural} "{key[1]}" not found', "NotFound")
        return tree

    def _update(self, resource: Resource, key: Key, old: Tree, new: Tree, subresource: str) -> Item:
        kind = kinds.kind_of(resource)
        if subresource and subresource not in kind.subresources:
            raise ObjectMissing("the server could not find the requested resource", "NotFound")
        meta = new.get("metadata", {})
        _check_uid(resource, old, meta.get("uid", ""))
        if meta.get("resourceVersion", "") not in ("", old["metadata"]["resourceVersion"]):
            text = f'Operation cannot be fulfilled on {resource.plural} "{key[1]}": the object has been modified'
            raise Conflict(text, "Conflict")
        kept = {name: old["metadata"][name] for name in _SYSTEM_FIELDS if name in old["metadata"]}
        meta = {k: v for k, v in meta.items() if k not in _SYSTEM_FIELDS} | kept
        new |= {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        if subresource:
            new = kinds.written(subresource, old, new)
        elif kind.subresources:
            new = {k: v for k, v in new.items() if k != "status"} | {"status": old.get("status", {})}
        if subresource != kinds.EPHEMERAL:
            kinds.check_update(resource, old, new)
        new = kinds.filled_in(resource, new)
        if kind.has_generation and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        if new == old:
            return item_of(old)  # nothing to write: no new version, and no watch is notified
        if kinds.is_over(new):
            self.store.remove(resource, key)
            return item_of(new)
        return item_of(self.store.put(resource, key, new))

    def _namespace(self, resource: Resource, meta: Tree, asked: str) -> str:
        if not resource.namespaced:
            return ""
        if meta.get("namespace", asked) not in ("", asked):
            raise Refused("the namespace of the object does not match the namespace on the request", "BadRequest")
        if asked not in self.namespaces:
            raise ObjectMissing(f'namespaces "{asked}" not found', "NotFound")
        return asked

    def _check_name(self, resource: Resource, name: str) -> None:
        problem = "name or generateName is required" if not name else subdomain_problem(name)
        if problem:
            raise Invalid(f'{resource.kind} "{name}" is invalid: metadata.name: {problem}', fields=("metadata.name",))

    def _generated(self, base: str) -> str:
        return base and base + "".join(self._chance.choices(_NAME_CHARS, k=5))


def change_of(write: Write, resource: Resource, meant_by: Selector) -> Change | None:
    """A watch's event for a write; None when there is none. An object that is no longer selected counts as deleted."""
    if write.resource != resource:
        return None
    was = write.before is not None and meant_by(write.before)
    is_ = write.after is not None and meant_by(write.after)
    if not was and not is_:
        return None
    kind = ChangeKind.DELETED if not is_ else ChangeKind.MODIFIED if was else ChangeKind.ADDED
    return Change(kind, item_of(write.last))


def item_of(tree: Tree, *, listed: bool = False) -> Item:
    """The object as it is sent. In a list its kind is the list's, and is left out."""
    meta = tree["metadata"]
    sent = {k: v for k, v in tree.items() if k not in ("kind", "apiVersion")} if listed else tree
    raw = msgspec.json.encode(sent)
    return Item(meta.get("namespace", ""), meta["name"], meta["uid"], meta["resourceVersion"], raw)


def _bookmark(version: int, *, initial_end: bool = False) -> Change:
    return Change(ChangeKind.BOOKMARK, Item("", "", "", str(version), b"{}"), initial_end)


def _check_uid(resource: Resource, old: Tree, uid: str) -> None:
    has = old["metadata"]["uid"]
    if uid not in ("", has):
        name = old["metadata"]["name"]
        text = (
            f'Operation cannot be fulfilled on {resource.plural} "{name}": UID in precondition: {uid}, of object: {has}'
        )
        raise Conflict(text, "Conflict")


def _key(resource: Resource, namespace: str, name: str) -> Key:
    return (namespace if resource.namespaced else "", name)


def _tree(body: object) -> Tree:
    """A body as JSON has it. It is always a fresh tree, so no caller holds a part of the store."""
    tree: Any = msgspec.json.decode(msgspec.json.encode(body))
    if not isinstance(tree, dict):
        raise Refused("the body is not an object", "BadRequest")
    return tree


def _version(text: str) -> int:
    if not text.isdecimal():
        raise Refused(f"invalid resource version {text!r}", "BadRequest")
    return int(text)


def _token(version: int, key: Key) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((version, key))).decode()


def _token_read(token: str) -> tuple[int, Key]:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=tuple[int, tuple[str, str]])
    except (ValueError, msgspec.DecodeError) as error:
        raise Refused(f"continue key is not valid: {error}", "BadRequest") from error
