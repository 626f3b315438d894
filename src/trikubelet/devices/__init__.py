"""Device plugins of this node: which are connected (``plugins``), and which container holds what (``holdings``)."""
