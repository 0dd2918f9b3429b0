"""Card: the files beside the items of a data set: README, Croissant, licence and checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from faultlab import __version__
from faultlab.core import paths

SUMS = "SHA256SUMS"
_LICENCE = "https://spdx.org/licenses/Apache-2.0"
_FORMATS = {
    "metrics.om": ("application/openmetrics-text", "metrics, with the time of each sample"),
    "logs.jsonl": ("application/jsonl", "new lines of the logs, as OTLP JSON"),
    "topology.json": ("application/json", "machines, daemons, users"),
    "configuration.json": ("application/json", "files below /etc, and the settings of the network"),
}
# Of the specification of Croissant 1.0; its readers want the whole of it.
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "samplingRate": "cr:samplingRate",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
LOADER = r"""import pathlib, pandas
def load(item):
    lines = pandas.Series(pathlib.Path("items", item, "metrics.om").read_text().splitlines())
    pattern = r"^(?P<name>[a-zA-Z_:][\w:]*)\{(?P<labels>.*)\} (?P<value>\S+) (?P<time>\S+)$"
    return lines.str.extract(pattern).dropna().astype({"value": float, "time": float})
"""
_README = """\
# {count} recorded web stacks

Each folder of `items/` is one stack of nginx, PHP-FPM, Tomcat, MariaDB and memcached, or a part of
it, with users, for {seconds:g} seconds. In some of them something is wrong. The names are drawn.

| file | what is in it |
| --- | --- |
{rows}

## Load it

```python
{loader}```

Prometheus reads `metrics.om` as well: `promtool tsdb create-blocks-from openmetrics metrics.om`.

## Where the metrics come from

| job | source |
| --- | --- |
| `node`, `mysqld` | node_exporter and mysqld_exporter, as Debian packages them, on each machine |
| `blackbox` | blackbox_exporter on the machine of the users; `instance` is the page |
| `cadvisor` | cgroups of each container, read by faultlab, under the names of cAdvisor |
| `php-fpm` | status page, read by faultlab, under the names of php-fpm_exporter |
| `memcached` | `stats`, read by faultlab, under the names of memcached_exporter |
| `tomcat` | jcmd and jstat, read by faultlab, under the names of the Java client |

`up` is 1 for each scrape that was answered. nginx has no exporter here: the site has no page
`stub_status` and writes no access log.

In a container, node_exporter reads CPU, memory, pressure and disks of the whole machine below, and
of a network only what belongs to its machine. So `node_cpu_*` includes the load generator.

## Check it

`sha256sum -c {sums}`. Made by faultlab {version}. Licence: Apache-2.0, in `LICENSE`.
"""


def write(folder: Path, names: Mapping[str, float]) -> int:
    """Write the files beside the items, and return the bytes of all. `names`: with their seconds.

    Raises CannotRun.
    """
    rows = "\n".join(f"| `{name}` | {about} |" for name, (_, about) in _FORMATS.items())
    seconds = max(names.values(), default=0.0)
    facts = {"count": len(names), "seconds": seconds, "rows": rows, "version": __version__}
    text = _README.format(**facts, loader=LOADER, sums=SUMS)
    paths.write_whole(folder / "README.md", text)
    licence = paths.root() / "LICENSE"
    paths.write_whole(folder / "LICENSE", licence.read_text() if licence.is_file() else _LICENCE)
    sums = _sums(folder, ("croissant.json", SUMS))
    croissant = json.dumps(_croissant(len(names), sums), indent=1) + "\n"
    paths.write_whole(folder / "croissant.json", croissant)
    paths.write_whole(folder / SUMS, _sums(folder, (SUMS,)))
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _sums(folder: Path, without: tuple[str, ...]) -> str:
    """Return the lines of `sha256sum`, for all files but these."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    named = [(str(file.relative_to(folder)), file) for file in files]
    return "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {name}\n"
        for name, file in named
        if name not in without
    )


def _croissant(count: int, sums: str) -> dict[str, object]:
    whole = {
        "@type": "cr:FileObject",
        "@id": "folder",
        "name": "folder",
        "contentUrl": ".",
        "encodingFormat": "application/x-directory",
        "sha256": hashlib.sha256(sums.encode()).hexdigest(),  # of the checksums of its files
    }
    sets = [
        {
            "@type": "cr:FileSet",
            "@id": file.partition(".")[0],
            "name": file.partition(".")[0],
            "description": about,
            "containedIn": {"@id": "folder"},
            "encodingFormat": kind,
            "includes": f"items/*/{file}",
        }
        for file, (kind, about) in _FORMATS.items()
    ]
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": "faultlab",
        "description": f"{count} recorded web stacks; in some of them something is wrong.",
        "license": _LICENCE,
        "version": __version__,
        "datePublished": datetime.now(UTC).date().isoformat(),
        "distribution": [whole, *sets],
    }
