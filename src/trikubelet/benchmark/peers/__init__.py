"""Who is measured beside trikubelet, and trikubelet itself: programs that relist on request. ``protocol``
says how they are asked, ``port``, ``pure`` and ``ours`` are the ones in Python, upstream's own is bench/peers/go."""
