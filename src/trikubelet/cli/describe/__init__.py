"""The descriptions of ``describe``: one module for each kind, an API object in, lines out (``layout``)."""
