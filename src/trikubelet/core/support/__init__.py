"""The support of each field: the registry behind docs/support.md and the messages about unsupported fields.

    field            the terms: fields that work, with the test as proof, and reports to users of others
    pods             the fields of a pod's spec          configuration    the fields of a KubeletConfiguration

``core.containers.unsupported`` walks a pod by ``pods``' rows, ``core.configuration.effect`` a configuration by its
table. packaging/generate_support.py writes the page, and fails if a field of the API is in no table or a proof is no
test. CONTRIBUTING.md explains how a field moves from one state to another.
"""
