"""certificate: nginx serves a certificate that has ended; the renewed one is only on the disk."""

from dataclasses import dataclass

from faultlab.engine.shell import Shell
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends, steady
from faultlab.probes import curl

VISITS = 12
REFUSED = 60  # curl: the certificate of the server is not accepted
SHOWN = "openssl x509 -noout -fingerprint -checkend 0"
SERVED = f"openssl s_client -connect web:443 -servername web </dev/null 2>/dev/null | {SHOWN}"
ON_DISK = f"{SHOWN} -in {{}}/etc/nginx/tls/web.crt"
# The users copy the certificate of the CA when their machine starts.
COPIED = "for i in $(seq 100); do [ -s $CURL_CA_BUNDLE ] && break; sleep 0.1; done"
# The whole hours until the certificate that a user gets ends; nothing without a certificate.
HOURS = """end=$(openssl s_client -connect web:443 -servername web </dev/null 2>/dev/null |
openssl x509 -noout -enddate) && echo $((($(date -d "${end#*=}" +%s) - $(date +%s)) / 3600))"""


@dataclass(frozen=True)
class Look:
    """A page over https, how many of twelve visits get it, and the page over http.

    `hours`: for how long the certificate is still good; None in a record from before it was stored.
    """

    page: curl.Page
    arriving: int
    plain: curl.Page
    hours: int | None = None

    @property
    def lasts(self) -> int:
        """Return the hours, which an old record has only as an end in the past or a good month."""
        return self.hours if self.hours is not None else 720 * (self.page.exit_code == 0)


@dataclass(frozen=True)
class Inspection:
    """What openssl says of the certificate that is served, and of the one on the disk."""

    served: str
    on_disk: str

    @property
    def ended(self) -> bool:
        """Return whether the time of the served certificate is over."""
        return "will expire" in self.served

    @property
    def differ(self) -> bool:
        """Return whether both are certificates, and not the same."""
        return self.served != self.on_disk and all("=" in x for x in (self.served, self.on_disk))


def look(stack: Stack) -> Look:
    """Fetch the start page as a browser does, which accepts no certificate that has ended."""
    user = stack.user()
    user.run(COPIED)
    arriving = curl.arriving(user, "https://web/", tries=VISITS, max_time=5)
    page, plain = curl.get(user, "https://web/", 5), curl.get(user, "http://web/")
    return Look(page, arriving, plain, int(user.run(HOURS).out or 0))


def _said(machine: Shell, command: str) -> str:
    return machine.run(command).out.strip()


def inspect(stack: Stack) -> Inspection:
    """Read both certificates."""
    web = stack.sidecar("web")
    return Inspection(_said(stack.user(), SERVED), _said(web, ON_DISK.format(web.root)))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("page: curl's exit code", "page.exit_code", exactly(0), exactly(REFUSED)).says(
            "A browser opens the shop without a warning.", "A browser does not open the shop."
        ),
        Measure("visits that get the page, of 12", "arriving", exactly(VISITS), at_most(0)).says(
            "Every visit gets the page.", "Some visits do not get the page."
        ),
        Measure("page: size", "page.bytes", at_least(100), at_most(0), "bytes").says(
            "The page arrives whole.", "The page does not arrive."
        ),
        Measure(
            "time for which a browser will open the shop", "lasts", at_least(24), at_most(0), "h"
        ).says(
            "A browser opens the shop tomorrow, too.",
            "No browser opens the shop tomorrow.",
        ),
        steady("page without encryption: status", "plain.status", exactly(200)).says(
            "The page still comes without encryption.",
            "The page no longer comes without encryption.",
        ),
    ),
    evidence=(
        ends("the served certificate has ended", "ended", exactly(1)).seen("client", SERVED),
        ends("served and stored certificate differ", "differ", exactly(1)).seen(
            "web", ON_DISK.format("")
        ),
    ),
    asks=(page("https://web/", times=10),),
)
