"""Ensures that the image of a container is on the node: look, check access, pull, record (``ports.ImagePuller``).

    name valid? ─► present and accessible to the pod? ─► policy ─► back-off expired? ─► credentials
      ─► one pull per image ─► a turn (limits concurrent pulls) ─► a token (limits pulls per second)
      ─► each credential until one is accepted ─► recorded

An image that many pods need at once is pulled once. A pod that needs it meanwhile waits for that pull, and shares the
result: the image if the pod may access it, or the failure if the pod would have tried no other login. A pod pulls one
image at a time and turns are first come, first served, so a pod with many images delays another by one pull at most.
A failed pull starts a back-off per pod and image. Reasons, messages and events are upstream's (pkg/kubelet/images),
because scripts match them.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import trio
from msgspec import field

from trikubelet.core.image_names import should_pull, with_default_tag
from trikubelet.core.names import object_ref
from trikubelet.core.pull_failures import failed, reason_and_message
from trikubelet.core.pull_rights import VerificationPolicy
from trikubelet.core.token_bucket import TokenBucket
from trikubelet.images.figures import Ensured, PullFigures, size_word
from trikubelet.images.pulling import FailedPull, Pulling
from trikubelet.kit.every import Every
from trikubelet.kit.listeners import Listeners
from trikubelet.model.duration import format_duration
from trikubelet.model.errors import ImageUnavailable, ImportFailed, RetryAt
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime_errors import (
    RuntimeCallError,
    RuntimeFailure,
    RuntimeLost,
    RuntimeTimeout,
    RuntimeUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from trikubelet.core.pull_failures import Failure
    from trikubelet.images.credentials import Found, PodCredentials
    from trikubelet.images.rights import PullRights
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.credential_plugin import CredentialPlugin
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.objects import ObjectRef
    from trikubelet.model.registry import Credential
    from trikubelet.model.runtime import ImageInfo
    from trikubelet.model.runtime_config import SandboxConfig
    from trikubelet.ports import Events, ImageImports, Images

log = logging.getLogger(__name__)

SLOW_SECONDS: Final = 1.0
"""Pulls that take at least this long are logged, because they delay the start of a container."""

FAILURES_KEPT_MAX: Final = 10_000


def _is_an_image(_name: str) -> bool:
    return False


class PullRules(Frozen):
    """The configured limits and checks of pulls. ``at_once_max``: concurrent pulls; ``per_second`` and ``burst``: limit
    the rate at which pulls begin, 0 per second for no limit; ``verification``: None if every pod may use every image on
    the node; ``is_machine``: True for the name that stands for this machine itself, which is never pulled."""

    at_once_max: int = 1
    per_second: float = 0.0
    burst: int = 1
    verification: VerificationPolicy | None = field(default_factory=VerificationPolicy)
    plugins: Sequence[CredentialPlugin] = ()
    is_machine: Callable[[str], bool] = _is_an_image


class _Wanted(msgspec.Struct):
    """An image that a container needs; ``image`` is its name with a tag or digest. ``about``: the object of the events.
    ``found``: its credentials, looked up once; ``not_imported``: why the import from an archive failed."""

    pod: Pod
    container: Container
    about: ObjectRef
    image: str
    sandbox: SandboxConfig
    found: Found | None = None
    not_imported: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.pod.metadata.uid, self.image

    @property
    def and_not_imported(self) -> str:
        """Return the end of an error message: the reason why the import failed, if one was tried."""
        return f"; it was not imported: {self.not_imported}" if self.not_imported else ""


class _UnderWay(msgspec.Struct):
    """The current step of a pod's pull, and its start (Trio's clock)."""

    container: str
    doing: str
    since: float


class Puller:
    """Owns which pulls are in progress and which have failed. ``pulled``: notified with the pod and the duration in
    seconds of each successful pull."""

    def __init__(
        self,
        images: Images,
        credentials: PodCredentials,
        rights: PullRights,
        events: Events,
        bounds: Bounds,
        rules: PullRules,
        imports: ImageImports | None = None,
    ) -> None:
        """``imports``: None without an image directory."""
        self._images = images
        self._imports = imports
        self._is_machine = rules.is_machine
        self._credentials = credentials
        self._rights = rights
        self._events = events
        self._bounds = bounds
        self._turns = trio.CapacityLimiter(rules.at_once_max)
        self._tokens = TokenBucket(max(rules.burst, 1), rules.per_second, 0.0) if rules.per_second > 0 else None
        self._pulling: dict[str, Pulling] = {}
        self._under_way: dict[str, _UnderWay] = {}
        self._failures: dict[tuple[str, str], Failure] = {}
        self.figures: Final = PullFigures()
        self.pulled: Final[Listeners[Pod, float]] = Listeners("an image that was pulled")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Reconcile the pull records with the images on the node, and import the images of sandboxes, until
        cancelled."""
        task_status.started()
        async for _ in Every(self._bounds.pull_records_seconds):
            if self._imports is not None:
                await self._imports.bring_sandbox_images()
            try:
                with trio.fail_after(self._bounds.runtime_call_seconds_max):
                    await self._rights.tidy(self._images.list_images, self._pulling.keys())
            except (OSError, RuntimeCallError, trio.TooSlowError) as error:
                log.debug("Cannot reconcile the records of pulled images; retrying later: %s", error)

    async def ensure(
        self, pod: Pod, container: Container, sandbox: SandboxConfig, about: ObjectRef | None = None
    ) -> ImageInfo:
        """Return the image, once it is on the node. Raises ImageUnavailable, or RetryAt during a back-off."""
        about = about or object_ref(pod, container.name)
        try:
            image = with_default_tag(container.image)
        except ValueError as error:
            message = f'Failed to apply default image tag "{container.image}": {error}'
            raise self._refused(about, container, "InvalidImageName", message, event="InspectFailed") from error
        wanted = _Wanted(pod, container, about, image, sandbox)
        policy = container.image_pull_policy or "IfNotPresent"
        present = await self._look(wanted)
        if present is None and self._imports is not None and await self._import(wanted, self._imports):
            present = await self._look(wanted)
        if present is not None and self._is_machine(image):
            said = f'Image "{container.image}" is this machine itself; nothing to pull'
            self._record(wanted, "Normal", "Pulled", said)
            self._count(policy, present, pulled="false")
            return present
        if present is not None and not should_pull(policy, present=True) and await self._may_have(wanted, present):
            self._record(
                wanted,
                "Normal",
                "Pulled",
                f'Container image "{image}" already present on machine and can be accessed by the pod',
            )
            self._count(policy, present, pulled="false")
            return present
        if policy == "Never":
            self._count(policy, present, pulled="unknown" if present is None else "true")
            is_there = "is not present" if present is None else "is present on machine but not accessible by the pod,"
            message = f'Container image "{image}" {is_there} with pull policy of Never{wanted.and_not_imported}'
            raise self._refused(about, container, "ErrImageNeverPull", message, event="ErrImageNeverPull")
        # Counted before the back-off, like upstream: the metric counts the requests for an image, not the pulls.
        self._count(policy, present, pulled="true")
        self._check_backoff(wanted)
        return await self._pull(wanted)

    def _count(self, policy: str, present: ImageInfo | None, *, pulled: str) -> None:
        self.figures.ensured[Ensured("false" if present is None else "true", policy.lower(), pulled)] += 1

    def progress(self, uid: str) -> Mapping[str, str]:
        """Return the state of the pod's pull, in words for operators, by the container's name; empty without one."""
        found = self._under_way.get(uid)
        if found is None:
            return {}
        return {found.container: f"{found.doing}, for {trio.current_time() - found.since:.0f}s"}

    async def _look(self, wanted: _Wanted) -> ImageInfo | None:
        try:
            return await self._status(wanted.image)
        except RuntimeCallError as error:
            message = f'Failed to inspect image "{wanted.image}": {error}'
            raise self._refused(
                wanted.about, wanted.container, "ImageInspectError", message, event="InspectFailed"
            ) from error

    async def _status(self, image: str) -> ImageInfo | None:
        seconds = self._bounds.runtime_call_seconds_max
        try:
            with trio.fail_after(seconds):
                return await self._images.image_status(image)
        except trio.TooSlowError as error:
            raise RuntimeTimeout(f"the container runtime did not answer within {seconds:.0f}s") from error

    async def _import(self, wanted: _Wanted, imports: ImageImports) -> bool:
        """Import the image from the image directory. Return True if an archive had it and the import succeeded."""
        began = trio.current_time()
        try:
            with self._shown(wanted) as shown:
                shown.doing = f"looking for {wanted.image} in the image directory"
                archive = await imports.bring(wanted.image)
        except ImportFailed as error:
            wanted.not_imported = str(error)
            self._record(wanted, "Warning", "Failed", f'Failed to import image "{wanted.image}": {error}')
            return False
        if archive is None:
            return False
        took = format_duration(round(trio.current_time() - began, 3))
        self._record(wanted, "Normal", "Imported", f'Imported image "{wanted.image}" from {archive} in {took}')
        return True

    async def _may_have(self, wanted: _Wanted, present: ImageInfo) -> bool:
        return await self._rights.may_have(wanted.image, present.id, lambda: self._find(wanted))

    async def _find(self, wanted: _Wanted) -> Sequence[Credential]:
        if wanted.found is None:
            wanted.found = await self._credentials.find(wanted.pod, wanted.image)
        return wanted.found.credentials

    def _check_backoff(self, wanted: _Wanted) -> None:
        failure = self._failures.get(wanted.key)
        if failure is None or trio.current_time() >= failure.at:
            return
        said = f'Back-off pulling image "{wanted.image}"'
        self._record(wanted, "Normal", "BackOff", said)
        self._record(wanted, "Warning", "Failed", "Error: ImagePullBackOff")
        raise RetryAt("ImagePullBackOff", f"{said}: {failure.message}", failure.at, wanted.container.name)

    async def _pull(self, wanted: _Wanted) -> ImageInfo:
        asked, image = trio.current_time(), wanted.image
        self._record(wanted, "Normal", "Pulling", f'Pulling image "{image}"')
        try:
            with self._shown(wanted) as shown:
                credentials = await self._find(wanted)
                logins = [credential.login for credential in credentials] or (None,)
                came = trio.current_time()
                async with self._alone(image, shown) as (pulling, is_first):
                    found, began = (None if is_first else await self._shared(wanted, credentials)), trio.current_time()
                    if found is None:
                        # A registry that hangs would make each waiter in turn wait for the same time-out.
                        if not is_first and (why := pulling.why_in_vain(logins, came)) is not None:
                            raise RuntimeFailure(why)
                        try:
                            found, began = await self._in_turn(wanted, credentials, shown)
                        except RuntimeCallError as error:
                            pulling.failures.append(FailedPull(logins, str(error), trio.current_time()))
                            raise
        except RuntimeCallError as error:
            raise self._failed(wanted, f"{error}{wanted.and_not_imported}") from error
        self._failures.pop(wanted.key, None)
        now = trio.current_time()
        self.figures.durations[size_word(found.size_bytes)].add(now - asked)
        self.pulled.notify(wanted.pod, now - asked)
        took, whole = format_duration(round(now - began, 3)), format_duration(round(now - asked, 3))
        said = f'Successfully pulled image "{image}" in {took} ({whole} including waiting).'
        self._record(wanted, "Normal", "Pulled", f"{said} Image size: {found.size_bytes} bytes.")
        if now - asked >= SLOW_SECONDS:
            log.info("Pod %s: pulled image %s in %s", object_ref(wanted.pod), image, whole)
        return found

    async def _shared(self, wanted: _Wanted, credentials: Sequence[Credential]) -> ImageInfo | None:
        """Return the image that another pod has just pulled, if this pod may use it; None otherwise."""
        found = await self._status(wanted.image)
        if found is None or await self._rights.has_shown(wanted.image, found.id, credentials):
            return found
        # With Always, only credentials that are recorded as accepted count: a pull would have checked just these. The
        # policy's exceptions (preloaded images) would skip the check that Always asks for.
        is_always = wanted.container.image_pull_policy == "Always"
        return None if is_always or not await self._may_have(wanted, found) else found

    async def _in_turn(
        self, wanted: _Wanted, credentials: Sequence[Credential], shown: _UnderWay
    ) -> tuple[ImageInfo, float]:
        """Pull the image when it is its turn. Return it and the time at which the pull began."""
        line = self._turns.statistics()
        if line.borrowed_tokens >= line.total_tokens:
            before = line.borrowed_tokens + line.tasks_waiting
            shown.doing = f"{wanted.image} is queued to be pulled, {before} ahead of it"
        async with self._turns:
            # Inside the turn: a pull that waits for its token here keeps its place in the order of requests.
            if self._tokens is not None:
                await trio.sleep(self._tokens.take_in_advance(trio.current_time()))
            shown.doing, shown.since = f"pulling {wanted.image}", trio.current_time()
            return await self._with_each(wanted, credentials), shown.since

    async def _with_each(self, wanted: _Wanted, credentials: Sequence[Credential]) -> ImageInfo:
        """Pull the image with the first credential that the registry accepts. Raises RuntimeCallError with the answers
        to all of them."""
        image, refusals = wanted.image, dict[str, None]()
        try:
            await self._rights.begin(image)
        except OSError as error:
            why = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or error
            raise RuntimeFailure(f"cannot record the image pull: {why}") from error
        for credential in credentials or (None,):
            try:
                await self._images.pull_image(image, wanted.sandbox, credential.login if credential else None)
            except (RuntimeLost, RuntimeTimeout):
                raise  # the runtime may have completed the pull: the intent stays
            except RuntimeUnavailable:
                # The call had no effect, and would fail the same way with other credentials.
                await self._rights.failed(image)
                raise
            except RuntimeCallError as error:
                refusals[str(error)] = None
                continue
            found = await self._status(image)
            if found is None:
                raise RuntimeFailure("the runtime reports no such image after the pull")
            await self._rights.succeeded(image, found.id, credential)
            return found
        await self._rights.failed(image)
        said = list(refusals)
        raise RuntimeFailure(said[0] if len(said) == 1 else f"[{', '.join(said)}]")

    @asynccontextmanager
    async def _alone(self, image: str, shown: _UnderWay) -> AsyncIterator[tuple[Pulling, bool]]:
        """Hold the lock of an image's pulls. Yields its record, and True if the lock was free at once."""
        pulling = self._pulling.setdefault(image, Pulling())
        lock = pulling.lock
        is_first = not lock.locked()
        if not is_first:
            shown.doing = f"waiting for another pod's pull of {image}"
        try:
            async with lock:
                yield pulling, is_first
        finally:
            # The last one removes it: a waiter that lost this record would not see the failure it waited for.
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._pulling.pop(image, None)

    @contextmanager
    def _shown(self, wanted: _Wanted) -> Iterator[_UnderWay]:
        """Make the pull visible in ``progress`` while it runs. A pod has one at a time."""
        uid = wanted.pod.metadata.uid
        doing = f"looking up credentials for {wanted.image}"
        shown = self._under_way[uid] = _UnderWay(wanted.container.name, doing, trio.current_time())
        try:
            yield shown
        finally:
            self._under_way.pop(uid, None)

    def _failed(self, wanted: _Wanted, why: str) -> ImageUnavailable:
        reason, message = reason_and_message(wanted.image, why)
        before = self._failures.pop(wanted.key, None)
        self._failures[wanted.key] = failed(before, f"{reason}: {message}", trio.current_time())
        while len(self._failures) > FAILURES_KEPT_MAX:
            del self._failures[next(iter(self._failures))]
        self._record(wanted, "Warning", "Failed", f'Failed to pull image "{wanted.image}": {why}')
        self._record(wanted, "Warning", "Failed", f"Error: {reason}")
        if reason == "ErrImagePull" and wanted.found is not None and wanted.found.missing:
            said = f"Unable to retrieve some image pull secrets ({', '.join(wanted.found.missing)}); "
            said += "attempting to pull the image may not succeed."
            self._events.record(object_ref(wanted.pod), "Warning", "FailedToRetrieveImagePullSecret", said)
        return ImageUnavailable(reason, message, wanted.container.name)

    def _refused(
        self, about: ObjectRef, container: Container, reason: str, message: str, *, event: str
    ) -> ImageUnavailable:
        """Report why there is no image: in its own event and, like upstream, in a second one for the failed start."""
        self._events.record(about, "Warning", event, message)
        self._events.record(about, "Warning", "Failed", f"Error: {reason}")
        return ImageUnavailable(reason, message, container.name)

    def _record(self, wanted: _Wanted, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._events.record(wanted.about, type_, reason, message)
