"""Manifests of static pods: turns the text of a file or URL into pods ready to run, the objects they read, and faults.

``load.load_manifest`` is the entry point. It reads documents, checks their structure (``core.structure``), fills in the
API's defaults (``defaults``), gives each pod its identity on this node (``static``) and validates it (``validation``).
ConfigMaps and Secrets are in ``objects``.
"""

from trikubelet.core.manifest.load import Loaded, load_manifest
from trikubelet.core.manifest.origin import Origin
from trikubelet.core.manifest.static import api_references

__all__ = ["Loaded", "Origin", "api_references", "load_manifest"]
