#!/bin/sh
# The tests of the dashboard drive a Chromium. Look for one; on a Debian with root, install it; otherwise say how.
set -eu

for candidate in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$candidate" >/dev/null 2>&1; then
        exit 0
    fi
done

echo "There is no Chromium here, and the tests of the dashboard drive one." >&2

if [ -f /etc/debian_version ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    for package in chromium chromium-browser; do
        echo "Installing $package ..." >&2
        if { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"; } >/dev/null; then
            exit 0
        fi
    done
    echo "apt-get could not install it." >&2
fi

cat >&2 <<'HOW'
Get it with one of:
  Debian            sudo apt-get install chromium
  Ubuntu            sudo snap install chromium
  Fedora, RHEL      sudo dnf install chromium
  Arch              sudo pacman -S chromium
  macOS             brew install --cask google-chrome, with "Google Chrome" linked as google-chrome on the PATH
HOW
exit 1
