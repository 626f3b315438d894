"""Volumes: what a pod's ``spec.volumes`` name, made ready before its containers and taken down after them."""
