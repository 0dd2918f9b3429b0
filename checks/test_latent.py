"""latent: the sysctl is far too small, and no socket has it: the queues are as long as before."""

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check
from faultlab.lab.measures import delay, inspect_nothing, rate, share
from faultlab.probes import ab


def look(stack: Stack) -> ab.Look:
    """Two seconds of the visitors who meet a short accept queue at once."""
    seconds = stack.pace.seconds(2)
    return ab.Look(ab.visits(stack.user(), "http://web/", visitors=400, seconds=seconds))


CHECK = Check(
    look=look,
    inspect=inspect_nothing,
    symptom=(
        delay("slowest 1% of visits, mean", "visits.slowest_percent", good=2.5).says(
            "Even the slowest visits are about as quick as before.",
            "The slowest visits take far longer than before.",
        ),
        share("visits over half a second", "visits.slow_share", good=0.05).says(
            "Hardly anybody waits half a second or longer.",
            "Some visitors wait half a second or longer.",
        ),
        rate("good visits", "visits.good_per_second", good=0.5).says(
            "About as many visitors get their page as before.",
            "Far fewer visitors get their page than before.",
        ),
    ),
    asks=(page("http://web/"),),
)
