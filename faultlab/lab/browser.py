"""Browser: the headers that users send, so that no rule can tell a check from other users."""

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
LANGUAGE = "en-US,en;q=0.5"


def agent(number: int) -> str:
    """Return the name of a browser of one of thirty versions. images/machine/json.lua has them."""
    version = 115 + number % 30
    return f"Mozilla/5.0 (X11; Linux x86_64; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"


def headers(number: int) -> list[str]:
    """Return the headers of such a browser."""
    return [
        f"User-Agent: {agent(number)}",
        f"Accept: {ACCEPT}",
        f"Accept-Language: {LANGUAGE}",
    ]


def config(number: int) -> str:
    """Return the same headers as lines of a configuration of curl."""
    return "".join(f'header = "{line}"\n' for line in headers(number))
