"""The programs that are measured, trikubelet and others: each relists on request. ``protocol`` defines the requests,
``port``, ``pure`` and ``ours`` are the ones in Python, upstream's own is bench/peers/go."""
