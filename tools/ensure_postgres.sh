#!/bin/sh
# The tests of the PostgreSQL sink start a server of their own. Look for its programs; on a Debian with root, install
# them; otherwise say how to get them. Prints the folder that holds them.
set -eu

programs() {
    for folder in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t / -k 5 -n -r) "$(dirname "$(command -v initdb || echo /)")"; do
        if [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ]; then
            echo "$folder"
            return 0
        fi
    done
    return 1
}

programs && exit 0
echo "There is no PostgreSQL server here." >&2

if [ -f /etc/debian_version ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing postgresql ..." >&2
    if { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql; } >/dev/null; then
        programs && exit 0
    fi
    echo "apt-get could not install it." >&2
fi

cat >&2 <<'HOW'
Get it (15 or later) with one of:
  Debian, Ubuntu    sudo apt-get install postgresql
  Fedora, RHEL      sudo dnf install postgresql-server
  Arch              sudo pacman -S postgresql
  macOS             brew install postgresql@16
HOW
exit 1
