#!/bin/sh
# Before the files go. The agent ends, and its containers live on (KillMode=process in the unit).
set -e

# dpkg says "remove", rpm how many versions are left; in an upgrade the agent runs until the new one takes its place.
case "${1-}" in
    remove | 0) ;;
    *) exit 0 ;;
esac

[ -d /run/systemd/system ] || exit 0
systemctl --no-reload disable --now trikubelet.service
