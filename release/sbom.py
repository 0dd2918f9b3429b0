"""SBOM: complete the list of Python packages with Debian's packages and the copies of NOTICE.

Usage: python release/sbom.py VERSION PYTHON.json PACKAGES NOTICE >SBOM.json

PYTHON.json is what cyclonedx-py made of a lock file. PACKAGES has a line for each package of an
image: image, name, version and processor, with tabs. The result is CycloneDX JSON, and is checked
with its schema. Source: https://cyclonedx.org/docs/1.6/json, https://github.com/package-url
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

NAME = "faultlab"
# The lines of a part of NOTICE: "uPlot 1.6.32, MIT" and "  from      npm uplot@1.6.32: …".
_PART = re.compile(r"^(?P<name>\S.*) (?P<version>\S+), (?P<licence>[A-Za-z0-9.-]+)$", re.MULTILINE)
_NPM = re.compile(r"^  from +npm (?P<name>\S+)@(?P<version>[^:\s]+)", re.MULTILINE)
_DEB = re.compile(r"^  from +Debian's (?P<name>\S+) (?P<version>[^,\s]+)", re.MULTILINE)

Component = dict[str, Any]


def component(purl: str, name: str, version: str, **more: Any) -> Component:
    """Return a component, whose package URL is also its name within the document."""
    facts = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return {**facts, **more}


def debian(text: str) -> Iterator[Component]:
    """Yield each Debian package once, with the images that it is in."""
    images: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for line in text.splitlines():
        image, *package = line.split("\t")
        images[tuple(package)].append(image)
    for (name, version, processor), tags in sorted(images.items()):
        purl = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={processor}"
        found = [{"name": f"{NAME}:image", "value": tag} for tag in sorted(set(tags))]
        yield component(purl, name, version, properties=found)


def copies(notice: str) -> Iterator[Component]:
    """Yield each part of NOTICE: a copy of other people's work. Raises ValueError."""
    for text in notice.split("\n\n"):
        if not re.search(r"^  files ", text, re.MULTILINE):
            continue
        part, npm, deb = _PART.search(text), _NPM.search(text), _DEB.search(text)
        origin = npm or deb
        if not (part and origin):
            raise ValueError(f"NOTICE: where is this from? {text.splitlines()[0]}")
        kind = "npm" if npm else "deb/debian"
        purl = f"pkg:{kind}/{quote(origin['name'])}@{quote(origin['version'])}"
        licences = [{"license": {"id": part["licence"]}}]
        yield component(purl, part["name"], origin["version"], licenses=licences)


def complete(bom: dict[str, Any], version: str, parts: list[Component]) -> dict[str, Any]:
    """Return the document with faultlab as its subject, and with these parts."""
    whole = dict(bom)
    licences = [{"license": {"id": "Apache-2.0"}}]
    own = component(f"pkg:pypi/{NAME}@{version}", NAME, version, licenses=licences)
    whole["metadata"] = {**bom.get("metadata", {}), "component": {**own, "type": "application"}}
    whole["components"] = [*bom.get("components", []), *parts]
    refs = [each["bom-ref"] for each in whole["components"]]
    others = [each for each in bom.get("dependencies", []) if each["ref"] in refs]
    others += [{"ref": part["bom-ref"]} for part in parts]
    whole["dependencies"] = [{"ref": own["bom-ref"], "dependsOn": refs}, *others]
    return whole


def main(version: str, python: str, packages: str, notice: str) -> None:
    """Print the whole document, or raise ValueError if it does not fit its schema."""
    parts = [*debian(Path(packages).read_text()), *copies(Path(notice).read_text())]
    bom = json.loads(Path(python).read_text())
    text = json.dumps(complete(bom, version, parts), indent=1, sort_keys=True)

    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    wrong = JsonStrictValidator(SchemaVersion.from_version(bom["specVersion"])).validate_str(text)
    if wrong:
        raise ValueError(f"not CycloneDX {bom['specVersion']}: {wrong}")
    print(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
