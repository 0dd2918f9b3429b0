"""Cluster: a connection to the Kubernetes cluster of the current kubeconfig context."""

import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from faultlab.core import extra, naming
from faultlab.core.errors import CannotRun
from faultlab.core.later import Later
from faultlab.core.naming import OWNER_LABEL, STACK_LABEL
from faultlab.engine.own_pod import in_a_pod

# Importing takes most of a second, and few users of faultlab have a cluster.
client: Any = Later("kubernetes.client")
config: Any = Later("kubernetes.config")
urllib3: Any = Later("urllib3.exceptions")

ROLE_LABEL = "faultlab.role"
# Of a node whose kernel labs may change, and of the namespaces of the stacks on such nodes.
DISPOSABLE_LABEL = "faultlab.disposable"
MACHINE, HELPER = "machine", "helper"  # the roles of a pod

_PATIENCE = (10, 60)  # seconds, to connect and between two parts of a response
_CONTEXTS = "kubectl config get-contexts"


def absent() -> str:
    """Return why no cluster can be asked; empty if there is a library and a configuration."""
    if find_spec("kubernetes") is None:
        return "the Python package kubernetes is not installed"
    if in_a_pod():
        return ""
    files = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if not any(Path(file).is_file() for file in files.split(os.pathsep) if file):
        return f"there is no kubeconfig ({files})"
    return ""


class Cluster:
    """The API of a cluster.

    `disposable`: only its disposable nodes and the stacks on them count; else only the others do.
    """

    def __init__(self, disposable: bool = False) -> None:
        self.disposable = disposable
        if find_spec("kubernetes") is None:
            missing = "The Python package kubernetes is not installed."
            raise CannotRun(missing, extra.installer("kubernetes"))
        if why := absent():
            raise CannotRun(f"No cluster can be reached: {why}.", _CONTEXTS)
        with self.errors():
            try:
                self.client, self.context = _client()
            except (config.ConfigException, yaml.YAMLError) as error:
                raise CannotRun(f"The kubeconfig is broken: {error}", _CONTEXTS) from error
        rest = self.client.rest_client
        rest.request = partial(_patient, rest.request)
        self.core = client.CoreV1Api(self.client)
        self.network = client.NetworkingV1Api(self.client)

    @cached_property
    def version(self) -> Any:
        """Return what the API says about its version."""
        with self.errors():
            return client.VersionApi(self.client).get_code()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn the errors of the library into one line and the next command to type."""
        try:
            yield
        except client.ApiException as error:
            raise refused(error) from error
        except (urllib3.HTTPError, OSError) as error:
            raise CannotRun(
                f"The Kubernetes API does not respond: {_last(error)}", "kubectl cluster-info"
            ) from error

    def tolerant(self, remove: Callable[[], object]) -> None:
        """Remove a thing, and ignore that it is gone or is just being removed."""
        with self.errors():
            try:
                remove()
            except Exception as error:
                if getattr(error, "status", None) not in (404, 409):
                    raise

    def namespaces(self, stack: str = "") -> list[Any]:
        """Return our namespaces (of one stack)."""
        label = f"{STACK_LABEL}={stack}" if stack else STACK_LABEL
        label += f",{'' if self.disposable else '!'}{DISPOSABLE_LABEL}"
        with self.errors():
            return list(self.core.list_namespace(label_selector=label).items)

    def pods(self, namespace: str, role: str = "") -> list[Any]:
        """Return the pods in a namespace of ours."""
        label = f"{ROLE_LABEL}={role}" if role else ""
        with self.errors():
            return list(self.core.list_namespaced_pod(namespace, label_selector=label).items)

    def nodes(self) -> list[Any]:
        """Return the nodes for its stacks."""
        label = f"{DISPOSABLE_LABEL}=true" if self.disposable else f"!{DISPOSABLE_LABEL}"
        with self.errors():
            return list(self.core.list_node(label_selector=label).items)


def _client() -> tuple[Any, str]:
    """Return a client of the API, and the name of its context."""
    if in_a_pod():
        settings = client.Configuration()
        config.load_incluster_config(client_configuration=settings)
        return client.ApiClient(settings), "this pod"
    # The library reads the variable at its import only, and takes an empty one for a file.
    chosen = os.environ.get("KUBECONFIG") or None
    _, current = config.list_kube_config_contexts(config_file=chosen)
    return config.new_client_from_config(config_file=chosen), str(current.get("name", ""))


def _patient(request: Callable[..., Any], *words: Any, **options: Any) -> Any:
    """Make a request with a limit on its time. The library itself has none."""
    options["_request_timeout"] = options.get("_request_timeout") or _PATIENCE
    return request(*words, **options)


def pause(began: float) -> None:
    """Wait before the API is asked again, by the time since `began`: 0.04 to 0.5 seconds.

    Many seats wait at the same time, and the API has to answer each question.
    """
    time.sleep(min(0.5, max(0.04, (time.monotonic() - began) / 4)))


def owner_note() -> dict[str, str]:
    """Return the annotation with the owner of a stack and the machine that it is started from.

    A cluster has stacks from many machines, on which users and folders can have the same names.
    """
    return {OWNER_LABEL: naming.owner() + _here()}  # a label has no blanks and slashes


def owner_of(meta: Any) -> str:
    """Return the owner of a stack as naming.owner says it, and the machine if it is another."""
    notes: Mapping[str, str] = meta.annotations or {}
    return str(notes.get(OWNER_LABEL, "")).removesuffix(_here())


def _here() -> str:
    return f" on {platform.node()}"


def gone(error: BaseException | None) -> bool:
    """Return whether the API said that there is no such thing."""
    return getattr(error, "status", None) == 404


def refused(error: Any) -> CannotRun:
    """Return the error for a user when the API refused, with its own words."""
    try:
        said = json.loads(error.body or "{}").get("message", "")
    except (ValueError, AttributeError, TypeError):
        said = ""
    text = " ".join(str(said or error.reason or error).split())[:300]
    if gone(error):
        return CannotRun(f"It is gone from Kubernetes: {text}", "faultlab status")
    hint = "faultlab doctor --engine kubernetes"
    if error.status in (401, 403) and (
        found := re.search(r"cannot (\w+) resource \"(\S+)\"", text)
    ):
        hint = f"kubectl auth can-i {found[1]} {found[2]}"
    return CannotRun(f"Kubernetes refused: {text}", hint)


def _last(error: BaseException) -> str:
    """Return the innermost reason of an error of the HTTP library."""
    text = str(getattr(error, "reason", None) or error)
    return re.sub(r"^.*?: ", "", text.splitlines()[0] if text else repr(error))[:200]
