"""Probes: one task per probe, next to its pod's worker; their conclusions go into statuses and plans.

``node`` has the pods with probes (``ports.Probes``), ``pod`` the verdicts about one pod's containers, ``probe`` is the
task of one probe, ``prober`` sends one request. ``core.probes`` derives the verdicts from the results.
"""
