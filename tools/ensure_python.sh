#!/bin/sh
# The argument is a Python 3.11 to 3.13 or empty. It must be able to make virtual environments, which Debian
# keeps in a package of its own: with root it is installed, otherwise named.
set -eu
python=${1:-}

if [ -z "$python" ]; then
    echo "panewise wants Python 3.11, 3.12 or 3.13, and none is on the PATH." >&2
    echo "Name one: make PYTHON=/path/to/python3.12 ..." >&2
    exit 1
fi
"$python" -c 'import ensurepip, venv' 2>/dev/null && exit 0

package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
if [ -f /etc/debian_version ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing $package ..." >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"; } >/dev/null && exit 0
fi
echo "$python cannot make virtual environments: install $package (Debian, Ubuntu) or a complete Python." >&2
exit 1
