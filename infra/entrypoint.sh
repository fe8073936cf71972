#!/bin/sh
# What every container starts with: the one variable WASP_AUTH=user:password becomes what each program expects.
set -eu

refuse() {
    echo "entrypoint: $1" >&2
    exit 64
}

# Compose hands an unset variable on as an empty one; to Prefect and MLflow these two are not the same.
for name in PREFECT_SERVER_ENCRYPTION_KEY PREFECT_SERVER_UI_API_URL PREFECT_UI_URL MLFLOW_SERVER_CORS_ALLOWED_ORIGINS; do
    eval "value=\${$name-}"
    [ -n "$value" ] || unset "$name"
done

# The key of the ledger from a secret, where machines share no state folder.
key="${WASP_HOME-}/private/ledger.key"
if [ -r "${LEDGER_KEY_FILE-}" ] && [ ! -e "$key" ]; then
    (umask 077 && mkdir -p "$(dirname "$key")" && cp "$LEDGER_KEY_FILE" "$key")
fi

case "${1-} ${2-}" in
    "prefect server" | "mlflow server") server=$1 ;;
    *) server= ;;
esac

if [ -z "${WASP_AUTH-}" ]; then
    case "${WASP_BIND-}" in
        "" | 127.* | localhost | ::1) ;;
        *) refuse "WASP_BIND=$WASP_BIND opens the servers to other machines: set WASP_AUTH=user:password as well" ;;
    esac
    exec "$@"
fi

user=${WASP_AUTH%%:*}
password=${WASP_AUTH#*:}
if [ "$user" = "$WASP_AUTH" ] || [ -z "$user" ] || [ -z "$password" ]; then
    refuse "WASP_AUTH: write it as user:password"
fi
[ "${#password}" -ge 12 ] || refuse "WASP_AUTH: the password must have at least 12 characters"
[ "$password" != password1234 ] || refuse "WASP_AUTH: choose another password; MLflow refuses this one"

export PREFECT_API_AUTH_STRING="$WASP_AUTH" MLFLOW_TRACKING_USERNAME="$user" MLFLOW_TRACKING_PASSWORD="$password"

# Runs of other people may name registered datasets only (flows/engine/server.py).
if [ -z "$server" ] && [ -w "${WASP_HOME-}" ] && [ ! -e "$WASP_HOME/server.yaml" ]; then
    (umask 077 && echo "keys: {}" >"$WASP_HOME/server.yaml")
fi

case "$server" in
    prefect)
        export PREFECT_SERVER_API_AUTH_STRING="$WASP_AUTH"
        ;;
    mlflow)
        # MLflow reads the password only when it makes the account. A fresh account book at every start lets a changed
        # WASP_AUTH take effect; runs and models are not kept in it.
        folder=$(mktemp -d)
        here=${WASP_CODE:-/opt/wasp}/infra/mlflow_auth.ini
        sed "s#FOLDER#$folder#" "$here" >"$folder/mlflow_auth.ini"
        export MLFLOW_AUTH_CONFIG_PATH="$folder/mlflow_auth.ini"
        export MLFLOW_AUTH_ADMIN_USERNAME="$user" MLFLOW_AUTH_ADMIN_PASSWORD="$password"
        if [ -z "${MLFLOW_FLASK_SERVER_SECRET_KEY-}" ]; then
            MLFLOW_FLASK_SERVER_SECRET_KEY=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
            export MLFLOW_FLASK_SERVER_SECRET_KEY
        fi
        set -- "$@" --app-name basic-auth
        ;;
esac
exec "$@"
