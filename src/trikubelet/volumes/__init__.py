"""Volumes: the entries of a pod's ``spec.volumes``, set up before its containers and torn down after them."""
