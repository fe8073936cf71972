#!/bin/sh
# Writes infra/.env from infra/.env.example with fresh secrets; refuses to overwrite one.
set -eu
umask 077
cd "$(dirname "$0")"
if [ -e .env ]; then
    echo "new_env: infra/.env exists; edit it, or move it away first" >&2
    exit 1
fi

random_word() {
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n'
}

while IFS= read -r line; do
    case "$line" in
        WASP_AUTH=) echo "WASP_AUTH=admin:$(random_word)" ;;
        *_PASSWORD=) echo "$line$(random_word)" ;;
        PREFECT_SERVER_ENCRYPTION_KEY=) echo "$line$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')" ;;
        *) printf '%s\n' "$line" ;;
    esac
done <.env.example >.env.new
mv .env.new .env
echo "new_env: wrote infra/.env; the user and password of both servers are in its line WASP_AUTH"
