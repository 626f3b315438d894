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

# Root directories of agents. The second one may be without a record: after a reset, or of an agent that never started.
roots() {
    [ ! -e /var/lib/kubelet/runtime-endpoint ] || echo /var/lib/kubelet
    [ ! -d /var/lib/trikubelet ] || echo /var/lib/trikubelet
}

# One whose pods lived inside the agent: no kubelet can have taken them over, and every file in it is the agent's.
is_of_embedded() { # ROOT
    runtime=
    [ ! -e "$1/runtime-endpoint" ] || read -r runtime <"$1/runtime-endpoint" || :
    case "$1 $runtime" in
        "/var/lib/trikubelet " | "/var/lib/trikubelet embedded:" | "/var/lib/trikubelet fake:") return 0 ;;
        *) return 1 ;;
    esac
}

# Credentials stay, and what a kubelet has put there.
remove_own_files() { # ROOT
    rm -f "$1/trikubelet.lock" "$1/trikubelet.sock" "$1/removed_pods" "$1/unknown_pods"
    find "$1" -xdev -depth -type d -empty -delete
}

# Pods that the root directory does not know are another agent's.
end_pods() {
    version=
    for root in $(roots); do # not looked for: another agent may have left its socket in one of them
        of_embedded=
        ! is_of_embedded "$root" || of_embedded=yes
        if [ -z "$of_embedded" ] && kubelet_is_installed; then
            leave_alone "this machine has a kubelet, whose pods these may be"
            continue
        fi
        version=${version:-$(newest_that_starts)}
        if [ -z "$version" ]; then
            leave_alone "nothing that starts is left in /var/cache/trikubelet"
        elif ! of "$version" reset --keep-unknown-pods --root-dir="$root"; then
            leave_alone "see above" " --root-dir=$root"
        elif [ "$of_embedded" ]; then
            rm -rf --one-file-system "$root"
        else
            remove_own_files "$root"
        fi
    done
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
