"""What becomes of a field that somebody sets: the registry behind docs/support.md and behind what is said at run time.

    field            the terms: what works and which test proves it, what is reported to whoever uses a field
    pods             the fields of a pod's spec          configuration    the fields of a KubeletConfiguration

``core.containers.unsupported`` walks a pod by ``pods``' rows, ``core.configuration.effect`` a configuration by its
table, and packaging/generate_support.py writes the page and fails where a field of the API is in no table or a proof is
no test. CONTRIBUTING.md says how a field moves from one state to another.
"""
