#!/bin/sh
# After the files of a version are there. An agent that systemd runs is started anew from them and finds its containers
# again. On a new installation nothing starts: a kubelet's pods may be on this machine's runtime, which an agent of its
# own would take for leftovers, and only the operator knows.
set -e

# dpkg says "configure", or which way back from a failure it is on; rpm says how many versions there are from now on.
case "${1-}" in
    configure | [0-9]*) ;;
    *) exit 0 ;;
esac

# Whoever runs from an earlier version has compiled modules of it mapped; the other ones nobody needs any more. What ends
# in .tmp somebody may be unpacking right now, who would go on and leave a version with holes in it for good, and
# holds its lock; a version's lock goes with it.
for unpacked in /var/cache/trikubelet/trikubelet_*; do
    case $unpacked in *.tmp) continue ;; esac
    grep -qsF "$unpacked/" /proc/[0-9]*/maps || rm -rf "$unpacked" "${unpacked%/*}/.${unpacked##*/}_lock"
done

# Unpacks and compiles it where the service will look for it, so that the node is silent for less. What cannot start must
# not take the place of what runs: the flags are listed by the agent itself, with the modules it is made of.
if ! SHIV_COMPILE_PYC=1 /usr/bin/trikubelet --v=0 --help >/dev/null; then
    echo "trikubelet: this version does not start on this machine (see above); an agent that runs is left alone" >&2
    exit 1
fi

# Without a version before, dpkg says none after "configure", and rpm "1".
case "$1 ${2-}" in
    "configure " | "1 ")
        echo "trikubelet: installed and not started: put manifests into /etc/kubernetes/manifests (examples are in"
        echo "/usr/share/doc/trikubelet/examples/manifests), then: systemctl enable --now trikubelet"
        ! command -v kubelet >/dev/null ||
            echo "trikubelet: this machine has a kubelet, which that stops: read /usr/share/doc/trikubelet/docs/packages.md before"
        ;;
esac

[ -d /run/systemd/system ] || exit 0 # whoever started the agent starts it again
systemctl daemon-reload
# Nobody waits for it: where the runtime is away, it is ready after minutes.
systemctl --no-block try-restart trikubelet.service
if [ "$(readlink /usr/bin/kubelet)" = trikubelet ]; then
    systemctl --no-block try-restart kubelet.service
fi
