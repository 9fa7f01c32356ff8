#!/bin/sh
# Debian passes install or upgrade, RPM the number of installations.
set -e

case "$1" in
install | upgrade | 1 | 2)
	# Files of the package belong to this group.
	getent group delaybridge >/dev/null || groupadd --system delaybridge
	getent passwd delaybridge >/dev/null ||
		useradd --system --gid delaybridge --no-create-home --home-dir /nonexistent \
			--shell /usr/sbin/nologin --comment "Delay bridge" delaybridge
	;;
esac
