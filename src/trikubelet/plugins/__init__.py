"""The plugins of a node that register by a socket in ``plugins_registry``, whatever they offer.

``watcher`` finds the sockets and asks each plugin for its kind; a handler for each kind (``volumes.csi_registration``
for CSI drivers) uses the plugin. ``asking`` bounds what a plugin is asked.
"""
