"""An incident of the faults of other labs, judged by their checks. verify says which lab it is."""

import os

from faultlab.lab import checks, loader

CHECK = checks.load(loader.load(os.environ["FAULTLAB_LAB"]))
