"""Registry: our images in a registry, or on the nodes of a cluster."""

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.later import Later
from faultlab.engine.contract import Images, Say
from faultlab.engine.docker.build import DockerImages
from faultlab.engine.docker.connection import Docker
from faultlab.engine.kubernetes import program
from faultlab.engine.kubernetes.cluster import Cluster
from faultlab.engine.own_pod import in_a_pod
from faultlab.lab.images import BASE, names, short, tag

urllib3: Any = Later("urllib3")

VARIABLE = "FAULTLAB_REGISTRY"  # as in registry.example.org/labs; empty: images are on the nodes
_ADDRESS = re.compile(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._/-]+)?")
_LOOPBACK = re.compile(r"(localhost|127\.)")
_LISTED = 50  # the images that a kubelet lists at most, unless nodeStatusMaxImages is set
_KINDS = (
    "application/vnd.docker.distribution.manifest.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json"
)


def chosen() -> str:
    """Return the registry of the environment. Raises BadInput for what is no address of one."""
    return checked(os.environ.get(VARIABLE, "").rstrip("/")) if os.environ.get(VARIABLE) else ""


def checked(address: str) -> str:
    """Return an address of a registry. Raises BadInput if it is none."""
    if not _ADDRESS.fullmatch(address):
        raise BadInput(f"{address!r} is no address of a registry.", "faultlab images --help")
    return address


def image_of(name: str) -> dict[str, str]:
    """Return the image of a container, as a part of its description."""
    return tagged(tag(name))


def tagged(its_tag: str) -> dict[str, str]:
    """Return the image with a tag, as a part of the description of a container."""
    place = f"{chosen()}/" if chosen() else ""
    return {"image": place + its_tag, "imagePullPolicy": "IfNotPresent"}


def _build(docker: Docker, more: Collection[str], say: Say) -> dict[str, str]:
    """Build with Docker here what a cluster needs; return the tag of each image."""
    every = [*names(), *sorted(more)]
    DockerImages(docker).ensure(say, every)
    program.ensure(docker, say)
    tags = {short(name): tag(name) for name in every if name != BASE}
    return tags | {program.NAME: program.its_tag()}


def push(registry: str, more: Collection[str], say: Say) -> dict[str, str]:
    """Build the missing images with Docker here, and push all of them, also `more` of tools.

    Return the place of each image. Raises CannotRun.
    """
    docker = Docker()
    pushed = {}
    for name, its_tag in _build(docker, more, say).items():
        target = f"{checked(registry)}/{its_tag}"
        say(f"image {name}: pushing")
        with docker.errors():
            docker.client.images.get(its_tag).tag(*target.rsplit(":", 1))
            for event in docker.client.images.push(target, stream=True, decode=True):
                if "error" in event:
                    raise CannotRun(f"{registry} refused {name}: {event['error']}", "docker login")
            docker.client.images.remove(target)
        pushed[name] = target
    return pushed


def save(file: Path, more: Collection[str], say: Say) -> dict[str, str]:
    """Build the missing images with Docker here, and write all to a file, also `more` of tools.

    Return the tag of each image. Raises CannotRun.
    """
    docker = Docker()
    tags = _build(docker, more, say)
    DockerImages(docker).save([*tags.values()], file, say)
    return tags


class ClusterImages(Images):
    """The images that the nodes of a cluster have, or can pull."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def missing(self, wanted: Collection[str] | None = None) -> list[str]:
        """Return the wanted images (default: all) that are missing. `base` is not needed here."""
        every = [name for name in (names() if wanted is None else wanted) if name != BASE]
        registry = chosen()
        if in_a_pod():  # its network is not that of the nodes; a pod says if it gets no image
            return []
        if registry:
            return [name for name in every if not _in_registry(registry, tag(name))]
        nodes = self._cluster.nodes()
        return [
            name
            for name in every
            if not nodes or not all(_may_have(node, f"docker.io/{tag(name)}") for node in nodes)
        ]

    def ensure(
        self, say: Say, wanted: Collection[str] | None = None, *, network: bool = False
    ) -> None:
        """Check that no image is missing; a cluster builds none. Raises CannotRun."""
        if lacking := self.missing(wanted):
            where = chosen() or "REGISTRY"
            what = f"{chosen()} has" if chosen() else "The nodes have"
            tools = [Path(name).name for name in lacking if Path(name).is_absolute()]
            raise CannotRun(
                f"{what} no current image of {', '.join(map(short, lacking))}.",
                " ".join(["faultlab images push", where, *tools]),
            )

    def save(self, tags: Sequence[str], to: Path, note: Say) -> None:
        """Write images to a compressed archive, by the Docker of this machine. Raises CannotRun."""
        DockerImages(Docker()).save(tags, to, note)

    def remove(self) -> list[str]:
        """Remove none: what a node has pulled is the kubelet's, which collects it."""
        return []


def _may_have(node: Any, image: str) -> bool:
    """Return whether a node lists an image, or so many others that it may leave this one out.

    If it does leave one out that it lacks, the pod's own status says so.
    """
    listed = node.status.images or []
    return len(listed) >= _LISTED or any(image in (each.names or []) for each in listed)


def _in_registry(registry: str, image: str) -> bool:
    host, _, path = registry.partition("/")
    name, _, version = f"{path}/{image}".strip("/").rpartition(":")
    scheme = "http" if _LOOPBACK.match(host) else "https"
    url = f"{scheme}://{host}/v2/{name}/manifests/{version}"
    try:
        answer = urllib3.request("HEAD", url, headers={"Accept": _KINDS}, timeout=10, retries=1)
    except urllib3.exceptions.HTTPError as error:
        raise CannotRun(
            f"The registry {host} does not respond.", f"curl {scheme}://{host}/v2/"
        ) from error
    if answer.status in (401, 403):
        return True  # only the nodes have its password; they say if it is missing
    if answer.status not in (200, 404):
        raise CannotRun(f"The registry {host} responds with {answer.status}.", f"curl -I {url}")
    return bool(answer.status == 200)
