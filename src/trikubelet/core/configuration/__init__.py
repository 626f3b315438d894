"""The effective configuration: a file, its drop-ins and the flags combined.

    file ─► drop-in ─► drop-in ─► flags           each laid over those before it (layers)
    └────────────── one document, which remembers the origin of every value
                    │   unknown fields of a file leave it here, as faults or warnings (decoding)
                    └─► types ─► defaults ─► ranges ─► Effective, or all faults (here)

Nothing is read here: ``app.settings`` supplies the documents, ``app.flags`` the flags. ``effect`` finds the fields
without an effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.configuration.checks import problems
from trikubelet.core.configuration.decoding import Decoding, sort_faults
from trikubelet.core.configuration.effect import without_effect
from trikubelet.core.configuration.layers import FieldSetting, Merged, merge, only_known, without_zeros
from trikubelet.core.document import Document
from trikubelet.core.document.shown import shown
from trikubelet.core.field_path import place_of
from trikubelet.core.manifest.problem import Problem
from trikubelet.core.structure import examine
from trikubelet.model.faults import Fault
from trikubelet.model.feature_gates import FeatureGates, gate_problem
from trikubelet.model.frozen import Frozen
from trikubelet.model.kubelet_configuration import API_VERSION, KIND, KubeletConfiguration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.core.manifest.problem import Problems

__all__ = ["Decoding", "Effective", "FieldSetting", "as_written", "combine", "sort_faults"]

_IDENTITY = {"apiVersion": API_VERSION, "kind": KIND}
_DEFAULTS = KubeletConfiguration()


class Effective(Frozen):
    """The configuration in force. ``provenance``: the origin of every field that was given (``flag --v``,
    ``/etc/kubelet.yaml:12``); the others have their defaults. ``without_effect``: given fields that change nothing yet;
    ``warnings``: fields of files that are ignored."""

    configuration: KubeletConfiguration
    gates: FeatureGates
    provenance: Mapping[str, str]
    without_effect: tuple[str, ...]
    warnings: tuple[Fault, ...] = ()


def combine(
    documents: Sequence[Document], flags: Sequence[FieldSetting] = (), decoding: Decoding = Decoding.STRICT
) -> tuple[Effective | None, list[Fault]]:
    """Return the effective configuration of documents, later ones over earlier ones, under flags; or None and all
    faults.

    The shape of every document is checked separately, so that a fault is found even if a later layer covers it; ranges
    are checked for the values in force. Raises nothing.
    """
    faults: list[Fault] = []
    warnings: list[Fault] = []
    layers = []
    for document in documents:
        faults += _identity_faults(document)
        if isinstance(document.value, dict) and document.value.get("kind") in (None, KIND):
            layer = without_zeros(document, KubeletConfiguration)
            found = [fault for fault in examine(layer, KubeletConfiguration).faults if fault.path not in _IDENTITY]
            wrong, ignored = sort_faults(found, decoding)
            faults += wrong
            warnings += ignored
            layers.append(only_known(layer, KubeletConfiguration))
    merged = merge(layers, flags)
    examined = examine(Document(merged.value, "", 0), KubeletConfiguration)
    # Faults of files were found above; these are the flags'.
    faults += [placed for fault in examined.faults if (placed := merged.placed(fault)).line is None]
    configuration = _with_defaults(examined.value, merged)
    broken = [place_of(fault.path) for fault in examined.faults]
    for problem in (*problems(configuration), *_gate_problems(configuration)):
        place = place_of(problem.path)
        if not any(place[: len(other)] == other for other in broken):
            faults.append(merged.placed(Fault("", None, problem.path, problem.text, problem.remedy)))
    if faults:
        return None, list(dict.fromkeys(faults))
    gates = FeatureGates(configuration.feature_gates)
    idle = without_effect(merged.given(), configuration.feature_gates)
    return Effective(configuration, gates, merged.provenance(), idle, tuple(warnings)), []


def as_written(faults: Sequence[Fault], sources: Sequence[str]) -> list[Fault]:
    """Return the faults of files in the order of ``sources``, each file's by line, and other faults in their places: so
    an operator can fix a file in one pass from its beginning."""
    rank = {source: number for number, source in enumerate(sources)}
    ranked = iter(
        sorted((one for one in faults if one.source in rank), key=lambda one: (rank[one.source], one.line or 0))
    )
    ordered: list[Fault] = []
    for one in faults:
        if one.source not in rank:
            ordered.append(one)
        else:
            ordered += ranked  # all of them, at the place of the first
    return ordered


def _identity_faults(document: Document) -> list[Fault]:
    """Return the faults that keep a document from being a KubeletConfiguration at all."""
    source = document.source
    if not isinstance(document.value, dict):
        return [Fault(source, document.line(""), "", f"{shown(document.value)} where a {KIND} should stand")]
    faults = []
    for path, wanted in _IDENTITY.items():
        given = document.value.get(path)
        if given != wanted:
            problem = "Required value" if given is None else f"Unsupported value: {shown(given)}"
            faults.append(Fault(source, document.line(path), path, problem, f'write "{path}: {wanted}"'))
    return faults


def _with_defaults(configuration: KubeletConfiguration, merged: Merged) -> KubeletConfiguration:
    """Set upstream's defaults that depend on other fields."""
    given = {place[0] for place in merged.given()}
    if "nodeStatusUpdateFrequency" in given and "nodeStatusReportFrequency" not in given:
        configuration = msgspec.structs.replace(
            configuration, node_status_report_frequency=configuration.node_status_update_frequency
        )
    if configuration.merge_default_eviction_settings:
        hard = {**_DEFAULTS.eviction_hard, **configuration.eviction_hard}
        configuration = msgspec.structs.replace(configuration, eviction_hard=hard)
    return configuration


def _gate_problems(configuration: KubeletConfiguration) -> Problems:
    for name, value in configuration.feature_gates.items():
        text, remedy = gate_problem(name, value)
        if text:
            yield Problem(f"featureGates[{name}]", text, remedy)
