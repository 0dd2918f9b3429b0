"""Setup: install what an installed package cannot bring: Docker Engine, Compose, Debian's tools.

`setup/setup.sh` does it, as for a checkout. A list of packages in an error message would not do:
their names differ between Debian and Ubuntu, and on some machines nothing starts the Engine.
"""

import subprocess

from faultlab.admin import doctor
from faultlab.admin.doctor import Built
from faultlab.core import paths
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal


def setup(term: Terminal) -> Built:
    """Install and start what is missing, and build the images. Raises CannotRun."""
    script = paths.root() / "setup/setup.sh"
    # It can ask for a password, so it has our terminal. It prints on standard error only.
    if subprocess.run([str(script)], check=False).returncode != 0:
        raise CannotRun("This machine is not set up; the lines above say why.", "faultlab setup")
    return doctor.images(term)
