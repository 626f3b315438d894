#!/bin/sh
# After the files are gone. Containers are left alone, unless dpkg is to purge: then the pods end, too.
set -e

# The program is gone already, but not what it unpacked.
of() { # VERSION, WORDS...
    unpacked=$1
    shift
    PYTHONPATH=$unpacked/site-packages python3 -P -m trikubelet "$@"
}

# After an upgrade the version before lies there, too, and of an unpacking that was cut short a part (.tmp).
newest_that_starts() {
    for version in $(ls -td /var/cache/trikubelet/trikubelet_* 2>/dev/null); do
        case $version in *.tmp) continue ;; esac
        of "$version" --v=0 --help >/dev/null 2>&1 || continue
        echo "$version"
        break
    done
}

# One that is to take over, or has, need not run at this moment, and the pods are no longer ours.
kubelet_is_installed() {
    command -v kubelet >/dev/null ||
        { [ -d /run/systemd/system ] && systemctl cat kubelet.service >/dev/null 2>&1; }
}

leave_alone() { # WHY
    echo "trikubelet: pods were left alone: $1; to end them, install trikubelet again and say: trikubelet reset" >&2
}

end_pods() {
    if kubelet_is_installed; then
        leave_alone "this machine has a kubelet, whose pods these may be"
        return
    fi
    version=$(newest_that_starts)
    if [ -z "$version" ]; then
        leave_alone "nothing that starts is left in /var/cache/trikubelet"
    elif ! of "$version" reset; then
        leave_alone "see above"
    fi
}

case "${1-}" in
    purge)
        end_pods
        rm -rf /var/cache/trikubelet
        ;;
    0)
        rm -rf /var/cache/trikubelet
        ;;
    remove) ;;
    *) exit 0 ;;
esac

[ ! -d /run/systemd/system ] || systemctl daemon-reload
