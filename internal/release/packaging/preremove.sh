#!/bin/sh
# Debian passes remove, and RPM 0, unless the package is replaced by another release of it.
set -e

case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now delaybridge.service
	fi
	;;
esac
