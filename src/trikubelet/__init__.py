"""trikubelet: a Kubernetes node agent on Trio.

The packages below are layers, from ``kit`` (knows no Kubernetes) up to ``app`` (knows every name).
``docs/architecture.md`` draws them; import-linter holds them.
"""

__version__ = "0.1.0"
