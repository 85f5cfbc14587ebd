#!/bin/sh
# Spark runs on Java 17 or 21. Look for one; on a Debian with root, install one; otherwise say how to get it.
set -eu

java_version() {
    "$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}

found=""
for candidate in "${JAVA_HOME:+$JAVA_HOME/bin/java}" java; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
    found=$(java_version "$candidate")
    case "$found" in
        17 | 21) exit 0 ;;
    esac
done

if [ -n "$found" ]; then
    echo "Java $found is here, but Spark 4 wants Java 17 or 21." >&2
else
    echo "There is no Java here, and Spark wants Java 17 or 21." >&2
fi

if [ -f /etc/debian_version ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
        echo "Installing $package ..." >&2
        if { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"; } >/dev/null; then
            exit 0
        fi
    done
    echo "apt-get could not install it." >&2
fi

cat >&2 <<'HOW'
Get it with one of:
  Debian, Ubuntu    sudo apt-get install openjdk-17-jre-headless   (or openjdk-21-jre-headless)
  Fedora, RHEL      sudo dnf install java-21-openjdk-headless
  Arch              sudo pacman -S jre21-openjdk-headless
  macOS             brew install openjdk@21
or set JAVA_HOME to a Java 17 or 21 that is not on the PATH.
HOW
exit 1
