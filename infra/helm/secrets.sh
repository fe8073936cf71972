#!/bin/sh
# Prints the Secrets that the values and manifests of this folder name, made from infra/.env:
#   sh infra/helm/secrets.sh | kubectl apply --namespace wasp --filename -
# Keys of paid models: add them to wasp-worker, for example
#   kubectl patch secret wasp-worker --namespace wasp --patch '{"stringData": {"OPENAI_API_KEY": "..."}}'
set -eu
file=$(dirname "$0")/../.env
if [ ! -r "$file" ]; then
    echo "secrets: run infra/new_env.sh first" >&2
    exit 1
fi

value() {
    found=$(sed -n "s/^$1=//p" "$file" | tail -n 1)
    if [ -z "$found" ]; then
        echo "secrets: $1 is empty in infra/.env" >&2
        exit 1
    fi
    printf '%s' "$found"
}

# YAML in single quotes: a quote inside is written twice.
line() {
    printf "  %s: '%s'\n" "$1" "$(printf '%s' "$2" | sed "s/'/''/g")"
}

secret() {
    printf -- '---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nstringData:\n' "$1"
}

host=${POSTGRES_HOST:-wasp-postgres}
auth=$(value WASP_AUTH)
prefect=$(value PREFECT_DB_PASSWORD)
mlflow=$(value MLFLOW_DB_PASSWORD)
ledger=$(value LEDGER_DB_PASSWORD)
postgres=$(value POSTGRES_PASSWORD)
encryption=$(value PREFECT_SERVER_ENCRYPTION_KEY)

secret wasp-auth
line auth-string "$auth"
secret wasp-postgres
line POSTGRES_PASSWORD "$postgres"
line PREFECT_DB_PASSWORD "$prefect"
line MLFLOW_DB_PASSWORD "$mlflow"
line LEDGER_DB_PASSWORD "$ledger"
secret wasp-prefect
line connection-string "postgresql+asyncpg://prefect:$prefect@$host:5432/prefect"
line encryption-key "$encryption"
secret wasp-mlflow
line backend-store-uri "postgresql+psycopg2://mlflow:$mlflow@$host:5432/mlflow"
line username "${auth%%:*}"
line password "${auth#*:}"
line flask-secret-key "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')"
secret wasp-worker
line WASP_AUTH "$auth"
line WASP_LEDGER_URL "postgresql+psycopg2://ledger:$ledger@$host:5432/ledger"
