"""Manifests of static pods: from the text of a file or URL to pods ready to run and the objects they read, and
everything that is wrong with it.

``load.load_manifest`` is the way in. It reads documents, walks their structure (``core.structure``), fills in the API's
defaults (``defaults``), gives each pod its identity on this node (``static``) and checks it (``validation``).
ConfigMaps and Secrets are in ``objects``.
"""

from trikubelet.core.manifest.load import Loaded, load_manifest
from trikubelet.core.manifest.origin import Origin
from trikubelet.core.manifest.static import api_references

__all__ = ["Loaded", "Origin", "api_references", "load_manifest"]
