"""Build the site: `python -m docs.site [FOLDER]`, into build/site if no folder is named.

It ends with 1 if a link or an anchor leads nowhere, or a page is in no part of the navigation.
"""

import logging
import os
import sys
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import MkDocsException

from docs.site.pages import ROOT, Site
from faultlab.core.terminal import Terminal


def main() -> int:
    """Build it, and say how long that took."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/site").resolve()
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")  # a notice of the theme about other versions
    logging.basicConfig(format="site: %(message)s", level=logging.WARNING)
    try:
        with Terminal().step("site", "reading the documents") as step:
            Site.note = step.note
            build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
            step.done(f"{folder}/index.html")
    except MkDocsException as error:
        sys.stderr.write(f"site: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
