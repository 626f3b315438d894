"""What the live tests stand on: real containerd processes of their own, images without a registry, and sweeping up.

``containerd.py`` is the front door; ``tests/live/conftest.py`` hands its objects to the tests as fixtures. Everything
here is synchronous: a Trio test calls the slow parts with ``trio.to_thread.run_sync``. Nothing here is product code.
"""
