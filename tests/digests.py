"""Print every digest that a recorded result depends on, to compare two commits or two releases.

.venv/bin/python -m tests.digests >before, then the change, then `… | diff before -`
"""

from collections.abc import Iterator

from faultlab.lab import collection, images
from faultlab.lab import loader as labs
from faultlab.run import digest
from faultlab.score import tool


def lines() -> Iterator[str]:
    """Yield a line for each image, for each severity of a lab, and for each decoy and tool."""
    for name in images.names():
        yield images.tag(name)
    for lab_id in labs.ours():
        for lab in labs.rows(labs.load(lab_id)):
            one = digest.repairs(lab)
            yield " ".join(
                [lab.id, digest.walk(lab.id), digest.fault(lab), *map(one, labs.repairs(lab))]
            )
    for name in labs.decoy_ids(collection.ours()):
        its = labs.decoy(collection.ours(), name)
        yield f"{name} {digest.decoy(its, labs.load(its.suggests))}"
    for name in tool.ids():
        its_tool = tool.load(name)
        yield f"{name} {images.tag(its_tool.image)} {its_tool.digest}"


if __name__ == "__main__":
    print("\n".join(lines()))
