#!/bin/sh
# The user stays: what is left of its files must not become another one's.
set -e

case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl daemon-reload
	fi
	;;
purge)
	rm -rf /etc/delaybridge
	;;
esac
