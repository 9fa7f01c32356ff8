#!/bin/sh
# Debian passes configure, RPM the number of installations.
set -e

case "$1" in
configure | 1 | 2)
	if [ -d /run/systemd/system ]; then
		systemctl daemon-reload
		# A bridge that runs finishes what it has claimed, and goes on with this release. Nothing is
		# started that did not run: a new installation has to be told first where its servers are.
		systemctl try-restart delaybridge.service ||
			echo "delaybridge: the bridge did not start again; see: systemctl status delaybridge" >&2
	fi
	;;
esac
