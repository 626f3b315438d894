"""What the live tests stand on: real containerds and control planes, images without a registry, and sweeping up.

``containerd.py`` and ``control_plane.py`` are the front doors; ``tests/live/conftest.py`` hands their objects to the
tests as fixtures, and benches use them likewise. Everything here is synchronous, because a Trio test's nursery could
not keep a process for the next test: it calls the slow parts with ``trio.to_thread.run_sync``. Nothing here is product
code.
"""
