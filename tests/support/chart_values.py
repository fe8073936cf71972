"""What the values in infra/helm use of the charts: every path with its type, read in the charts' documentation.

prefect-server and prefect-worker: since chart 2025.3.7 (Prefect 3.2.11), which renamed serverApiConfig to
selfHostedServerApiConfig. mlflow: the chart in MLflow's repository. A value that a chart does not know is ignored in
silence or refused at install time, so nothing may be set that is not listed here.
"""

from typing import Any

_RESOURCES = {"requests": {"cpu": str, "memory": str}, "limits": {"cpu": str, "memory": str}}
_CONTAINER = {
    "runAsUser": int,
    "runAsNonRoot": bool,
    "readOnlyRootFilesystem": bool,
    "allowPrivilegeEscalation": bool,
    "capabilities": {"drop": list},
}
_POD = {"runAsUser": int, "runAsNonRoot": bool, "fsGroup": int}
_ACCESS = {"enabled": bool, "existingSecret": str}

SERVER: dict[str, Any] = {
    "global": {"prefect": {"image": {"repository": str, "prefectTag": str, "pullPolicy": str}, "env": list}},
    "server": {
        "basicAuth": _ACCESS,
        "uiConfig": {"prefectUiApiUrl": str},
        "resources": _RESOURCES,
        "livenessProbe": {"enabled": bool},
        "readinessProbe": {"enabled": bool},
        "podSecurityContext": _POD,
        "containerSecurityContext": _CONTAINER,
    },
    "postgresql": {"enabled": bool},
    "sqlite": {"enabled": bool},
    "secret": {"create": bool, "name": str},
    "ingress": {
        "enabled": bool,
        "className": str,
        "host": {"hostname": str, "path": str, "pathType": str},
        "tls": bool,
    },
}
WORKER: dict[str, Any] = {
    "worker": {
        "image": {"repository": str, "prefectTag": str, "pullPolicy": str},
        "config": {"workPool": str, "type": str, "installPolicy": str, "limit": int},
        "apiConfig": str,
        "selfHostedServerApiConfig": {"apiUrl": str, "basicAuth": _ACCESS},
        "extraEnvVars": list,
        "resources": _RESOURCES,
        "livenessProbe": {"enabled": bool},
        "podSecurityContext": _POD,
        "containerSecurityContext": _CONTAINER,
    }
}
MLFLOW: dict[str, Any] = {
    "fullnameOverride": str,
    "image": {"repository": str, "tag": str, "pullPolicy": str},
    "replicaCount": int,
    "server": {
        "value_options": {
            "host": str,
            "port": int,
            "workers": int,
            "app_name": str,
            "allowed_hosts": str,
            "cors_allowed_origins": str,
        }
    },
    "mlflow": {"backendStoreUriFrom": {"secretKeyRef": {"name": str, "key": str}}, "artifactsDestination": str},
    "env": list,
    "storage": {"enabled": bool, "size": str, "mountPath": str},
    "podSecurityContext": _POD | {"seccompProfile": {"type": str}},
    "resources": _RESOURCES,
    "ingress": {"enabled": bool, "className": str, "hosts": list, "tls": list},
}
CHARTS = {"prefect-server": SERVER, "prefect-worker": WORKER, "mlflow": MLFLOW}


def unknown(values: Any, known: Any, path: str = "") -> list[str]:
    """Return the paths of `values` that a chart does not know, or knows as another type."""
    if not isinstance(known, dict):
        return [] if type(values) is known else [f"{path} must be {known.__name__}"]
    if not isinstance(values, dict):
        return [f"{path} must be a group"]
    found = [f"{path}.{key}" for key in values.keys() - known.keys()]
    return found + [
        one for key in values.keys() & known.keys() for one in unknown(values[key], known[key], f"{path}.{key}")
    ]
