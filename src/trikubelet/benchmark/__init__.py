"""Measuring the relist side by side with its peers: the same bytes, the same socket, one run (`trikubelet bench`)."""
