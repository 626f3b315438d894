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

leave_alone() { # WHY, FLAGS
    echo "trikubelet: pods were left alone: $1; to end them, install trikubelet again and run: trikubelet reset${2-}" >&2
}

# An agent has been there if its runtime is recorded. Which of the two it was depends on the runtime.
recorded() {
    for root in /var/lib/kubelet /var/lib/trikubelet; do
        [ ! -e "$root/runtime-endpoint" ] || echo "$root"
    done
}

end_pods() {
    roots=$(recorded)
    [ "$roots" ] || return 0
    if kubelet_is_installed; then
        leave_alone "this machine has a kubelet, whose pods these may be"
        return
    fi
    version=$(newest_that_starts)
    if [ -z "$version" ]; then
        leave_alone "nothing that starts is left in /var/cache/trikubelet"
    else
        for root in $roots; do # not looked for: another agent may have left its socket in one of them
            of "$version" reset --root-dir="$root" || leave_alone "see above" " --root-dir=$root"
        done
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
