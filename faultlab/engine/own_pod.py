"""Own pod: whether a cluster runs this program itself."""

import os
from pathlib import Path

_SOCKET = Path("/var/run/docker.sock")
_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def in_a_pod() -> bool:
    """Return whether the cluster runs this program itself, with an account and without a Docker.

    A pod that has a Docker is a person's machine, or that of a CI.
    """
    docker = os.environ.get("DOCKER_HOST") or _SOCKET.exists()
    return not docker and not os.environ.get("KUBECONFIG") and _TOKEN.is_file()
