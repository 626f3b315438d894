"""Probes: one task per probe, beside its pod's worker; their conclusions go into statuses and plans.

``node`` knows the pods that have probes (``ports.Probes``), ``pod`` what was concluded about one pod's containers,
``probe`` is the task of one probe, ``prober`` one question and its answer. What follows from answers is decided in
``core.probes``.
"""
