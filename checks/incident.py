"""An incident of the faults of other labs, judged by their checks. verify says which lab it is."""

import os

from faultlab.lab import checks, load

CHECK = checks.load(load.load(os.environ["FAULTLAB_LAB"]))
