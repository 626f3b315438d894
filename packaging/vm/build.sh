#!/usr/bin/env bash
# Makes the virtual machine of `make vm-test`: QEMU, and a Debian with systemd, containerd and runc on a disk image.
#
#   build.sh          makes what is missing (root; some 5 minutes); the last line it prints is the directory
#   build.sh --where  prints that directory, which may not exist yet, and does nothing else
#
# The directory holds disk.raw, kernel, initrd, key (for ssh as root) and qemu, a link to a small Debian whose programs
# emulate the machine. It is named after a hash of everything it is made of, except Debian's packages, and appears in one
# step once all of it is there: remove it to get newer packages. Tests write to overlays of the disk, never to the disk.
#
# Both systems are Debian trixie. The machine needs a recent systemd and kernel. QEMU 7.2 of bookworm has a race between
# its translation and a kernel that patches its own code, which crashes the guest now and then.
#
#   DEBIAN_MIRROR   where the packages come from (default: Debian's own mirror)

set -euo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
RELEASE=trixie
MIRROR=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
DISK_SIZE=8G
PACKAGES=(
    # The base of every installed Debian.
    systemd systemd-sysv dbus udev libpam-systemd apparmor openssh-server linux-image-amd64 initramfs-tools lz4 netbase
    kmod procps iproute2 ca-certificates less
    # Needed by containerd and the agent.
    containernetworking-plugins iptables libseccomp2 conntrack python3
    # Used by the tests.
    curl jq psmisc e2fsprogs
)
TOOLS=("debootstrap debootstrap" "mkfs.ext4 e2fsprogs" "ssh-keygen openssh-client")
LIVE=$HERE/../../tests/live/install.sh # it builds containerd and runc

CACHE=${TRIKUBELET_LIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trikubelet}
RUNTIMES=$(sed -n 's/^\(CONTAINERD\|RUNC\)_VERSION=//p' "$LIVE")
read -r CONTAINERD RUNC < <(paste -sd' ' <<<"$RUNTIMES")
SOURCES=$(cd "$HERE" && { cat build.sh && echo "$RUNTIMES" && find root -type f | LC_ALL=C sort | xargs tail -n +1; } |
    sha256sum | cut -c1-12)
DIRECTORY=$CACHE/vm/$RELEASE-$SOURCES
QEMU=qemu-$RELEASE

say() { printf 'virtual machine: %s\n' "$*"; }
stop() {
    printf 'virtual machine: cannot go on: %s\n' "$*" >&2
    exit 1
}

install_tools() {
    local tool missing=()
    for tool in "${TOOLS[@]}"; do
        PATH="$PATH:/usr/sbin:/sbin" command -v "${tool%% *}" >/dev/null || missing+=("${tool##* }")
    done
    [ ${#missing[@]} -eq 0 ] && return
    say "installing ${missing[*]}"
    apt-get -qq update || say "apt-get update failed; going on with the lists that are there"
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null ||
        stop "apt-get could not install ${missing[*]}; its message is above"
}

install_debian() { # packages; into $HALF/root
    nice debootstrap --variant=minbase --include="$(IFS=, && echo "$*")" "$RELEASE" "$HALF/root" "$MIRROR" \
        >"$HALF/log" 2>&1 || stop "debootstrap failed: $(tail -n 5 "$HALF/log")"
    rm -rf "$HALF/log" "$HALF"/root/var/cache/apt/archives/*.deb "$HALF"/root/var/lib/apt/lists/*
}

configure() { # what is in $HALF/root
    local root=$HALF/root program
    cp -r --no-preserve=ownership "$HERE/root/." "$root"
    for program in containerd containerd-shim-runc-v2 ctr; do
        cp "$CACHE/containerd-$CONTAINERD/bin/$program" "$root/usr/local/bin"
    done
    cp "$CACHE/runc-$RUNC/bin/runc" "$root/usr/local/sbin"
    ssh-keygen -q -t ed25519 -N '' -C tests -f "$HALF/key"
    install -D -m 600 "$HALF/key.pub" "$root/root/.ssh/authorized_keys"
    mkdir -p "$root/var/log/journal" # so that the journal outlives a reboot
    chroot "$root" sh -ec '
        systemctl enable systemd-networkd ssh containerd
        systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer
        update-initramfs -u
    ' >"$HALF/log" 2>&1 || stop "the system could not be configured: $(tail -n 5 "$HALF/log")"
    rm "$HALF/log"
}

# begin: makes the directory $HALF, which goes when this program ends; finish DIRECTORY: keep it under that name.
begin() {
    HALF=$(mktemp -d "$CACHE/vm/.building-XXXXXX")
    trap 'rm -rf "$HALF"' EXIT
}
finish() {
    chmod 755 "$HALF" # mktemp makes it private
    mv "$HALF" "$1"
    trap - EXIT
}

install_qemu() {
    begin
    say "installing QEMU of Debian $RELEASE into a directory"
    install_debian qemu-system-x86 qemu-utils
    finish "$CACHE/vm/$QEMU"
}

make_machine() {
    begin
    say "installing Debian $RELEASE into a directory (minutes)"
    install_debian "${PACKAGES[@]}"
    configure
    cp "$HALF"/root/boot/vmlinuz-* "$HALF/kernel"
    cp "$HALF"/root/boot/initrd.img-* "$HALF/initrd"
    truncate -s "$DISK_SIZE" "$HALF/disk.raw"
    nice mkfs.ext4 -q -F -L root -d "$HALF/root" "$HALF/disk.raw" || stop "mkfs.ext4 could not write the disk image"
    rm -rf "$HALF/root"
    ln -s "../$QEMU/root" "$HALF/qemu"
    finish "$DIRECTORY"
}

case ${1-} in
    --where) echo "$DIRECTORY" ;;
    "")
        [ "$(uname -m)" = x86_64 ] || stop "the machine is an x86_64 one; this is $(uname -m)"
        [ "$(id -u)" -eq 0 ] || stop "debootstrap needs root (sudo $0)"
        [ -x "$CACHE/containerd-$CONTAINERD/bin/containerd" ] && [ -x "$CACHE/runc-$RUNC/bin/runc" ] ||
            stop "containerd $CONTAINERD and runc $RUNC are not built (run $(realpath "$LIVE"))"
        mkdir -p "$CACHE/vm"
        exec 9>"$CACHE/vm/.lock"
        flock 9 # two builds at once: the second waits, then finds everything done
        install_tools
        [ -d "$CACHE/vm/$QEMU" ] || install_qemu
        [ -d "$DIRECTORY" ] || make_machine
        echo "$DIRECTORY"
        ;;
    *) stop "unknown word $1 (none, or --where)" ;;
esac
