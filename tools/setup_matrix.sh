#!/bin/sh
# Installs what `make test-matrix` and `make model` need beside Python, by apt.
# Works as root or through sudo; does nothing when everything is there.
set -eu

packages="pgbouncer postgresql-15 spin"

missing=""
for package in $packages; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
        missing="$missing $package"
done
if [ -z "$missing" ]; then
    echo "matrix packages are installed: $packages"
    exit 0
fi

root=""
if [ "$(id -u)" -ne 0 ]; then
    root="sudo"
fi
echo "installing by apt:$missing"
$root apt-get update -qq
# The tests start servers of their own with these programs; a cluster or service that the
# distribution starts on installation is neither needed nor touched.
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
