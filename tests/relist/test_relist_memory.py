"""What a relist takes at its worst moment, measured from outside: a process that has read nothing else tells its peak.

The worst list is made of the smallest containers that are kept: as many as a list may have, and none tells its pod.
"""

import subprocess
import sys

PEAK_BYTES_MAX = 160_000_000

CHILD = """
import itertools, re
from trikubelet.core.relist import Relist
from trikubelet.core.relist_twin import ITEMS_MAX

def field(number, data):
    return bytes((number << 3 | 2, len(data))) + data

def peak_bytes():  # of this process alone; what getrusage tells begins with the parent's
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1]) * 1024

relist = Relist("rust")
sandboxes = [field(1, field(1, b"s") + field(2, field(2, b"u")))]
ids = itertools.islice(itertools.product(b"abcdefghijklmnopqrstuvwxyzABCDEF", repeat=4), ITEMS_MAX)
containers = bytearray()
for letters in ids:
    containers += field(1, field(1, bytes(letters)) + field(2, b"s"))
containers = [bytes(containers)]
before = peak_bytes()
(change,) = relist.observe(sandboxes, containers)
after = peak_bytes()
print(sum(relist.counts()[1:5]) == ITEMS_MAX, after - before)
"""


def test_the_most_homeless_containers_that_a_list_may_have_take_bounded_memory():
    told = subprocess.run([sys.executable, "-W", "error", "-c", CHILD], check=True, capture_output=True, text=True)
    complete, grown_bytes = told.stdout.split()
    assert "True" == complete
    assert int(grown_bytes) < PEAK_BYTES_MAX
