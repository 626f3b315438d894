"""The keeper: the process that is the parent of every container of the embedded runtime, and that ends them.

It is a program of its own, started by ``embedded.link`` with the agent's interpreter, and imports the standard library
only, little of it. ``main`` is its main loop, ``child`` what a forked process does on its way to a container's command,
``root`` a container's view of the file system, ``guard`` the stand-in for process namespaces where there are none.
"""
