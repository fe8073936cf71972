#!/bin/sh
# Fetches Docker Compose 2 into .tools/, from the package of Debian 13, by the mirror that this machine already uses.
# It checks compose files without an engine; nothing is installed.
set -eu
cd "$(dirname "$0")/../.."
[ ! -x .tools/docker-compose ] || exit 0
# shellcheck disable=SC2016  # apt fills it in, not the shell
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -m 1 '/debian/\{0,1\}$')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" .tools
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$work/list"
apt() {
    apt-get -qq -o "Dir::Etc::sourcelist=$work/list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists" \
        -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root "$@"
}
apt update
(cd "$work" && apt download docker-compose && dpkg -x docker-compose_*.deb files)
cp "$work/files/usr/libexec/docker/cli-plugins/docker-compose" .tools/docker-compose
.tools/docker-compose version
