"""latent: the sysctl is far too small, but no socket uses it: queues are as long as before."""

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check
from faultlab.lab.measures import delay, inspect_nothing, rate, share
from faultlab.probes import ab


def look(stack: Stack) -> ab.Look:
    """Let 400 users at a time visit the page for two seconds: a short accept queue would show."""
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
            "Hardly any user waits half a second or longer.",
            "Some users wait half a second or longer.",
        ),
        rate("good visits", "visits.good_per_second", good=0.5).says(
            "About as many users get the page as before.",
            "Far fewer users get the page than before.",
        ),
    ),
    asks=(page("http://web/"),),
)
