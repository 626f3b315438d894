"""A fault: one thing wrong with one input, said so that a tired operator can act on it.

Everything that reads bytes written by a person (manifests, the kubelet configuration, flags) collects faults instead of
raising at the first one, so that all of them are seen in one attempt. A fault is plain data; the code that shows it
(log, ``get pods``, ``describe``, ``validate``, the last words of a failed start) decides nothing about its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable


class Fault(Frozen):
    """One thing wrong with one input.

    ``source`` is a file, a URL or a flag's name; ``line`` counts from 1 and is None where there are no lines;
    ``path`` is a Kubernetes field path (``spec.containers[0].image``) or empty for the whole document; ``problem``
    says what was wrong; ``remedy`` what to do, or is empty where the problem says it already.
    """

    source: str
    line: int | None
    path: str
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        return one_line(self.source, self.line, self.path, self.problem, self.remedy)


def one_line(source: str, line: int | None, path: str, problem: str, remedy: str) -> str:
    """A fault as an operator reads it; what is empty is left out."""
    where = source if line is None else f"{source}:{line}"
    what = f"{path}: {problem}" if path else problem
    return f"{where}: {what} ({remedy})" if remedy else f"{where}: {what}"


def printable(text: str) -> str:
    """As it can be sent and shown: of a file's name the bytes that are no UTF-8 are spelt out."""
    return text.encode(errors="backslashreplace").decode()


NEAR_ONES_MAX = 500


def nearest(name: str, known: Iterable[str], mark: str = "") -> str:
    """The remedy for a misspelt ``name``: ``did you mean "x"?``, or empty when nothing known is near it. ``mark`` is
    what stands before all of them, and makes none nearer: a flag's dashes. Among more than NEAR_ONES_MAX none is looked
    for: it takes 5 us each, and a manifest may have ten thousand names misspelt beside two thousand volumes."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    by_lower = {word.lower(): word for word in known}
    if len(by_lower) > NEAR_ONES_MAX:
        return ""
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f'did you mean "{mark}{by_lower[found[0]]}"?' if found else ""
