"""Page: the HTML pages of a class, and its results as a file."""

from dataclasses import dataclass
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.templating import Jinja2Templates

from faultlab.workshop import export
from faultlab.workshop.access import TRAINER, Keys, Visitor
from faultlab.workshop.guard import Guard
from faultlab.workshop.session import Session

TEMPLATES = Jinja2Templates(Path(__file__).parent / "pages")


@dataclass
class Pages:
    """The pages of one class."""

    session: Session
    keys: Keys
    guard: Guard

    async def start(self, request: Request) -> Response:
        """Redirect a visitor to their own page."""
        visitor = self.guard.visitor(request)
        if visitor is None:
            return TEMPLATES.TemplateResponse(request, "start.html")
        return RedirectResponse(_home(visitor), 303)

    async def join(self, request: Request) -> Response:
        """Exchange the token of a link for a cookie."""
        token = request.query_params.get("token", "")
        visitor = self.keys.visitor(token)
        if visitor is None:
            raise self.guard.stranger(request, "This link is not valid, or no longer.")
        answer = RedirectResponse(_home(visitor), 303)
        secure = self.guard.secure
        answer.set_cookie(self.guard.cookie, token, httponly=True, secure=secure, samesite="lax")
        return answer

    async def seat(self, request: Request) -> Response:
        """Return the page of a participant, which the trainer can see too."""
        seat = request.path_params["seat"]
        visitor = self.guard.admit(request, seat)
        facts = {"seat": seat, "trainer": visitor.trainer}
        return TEMPLATES.TemplateResponse(request, "seat.html", facts)

    async def trainer(self, request: Request) -> Response:
        """Return the roster."""
        return self._roster(request, "trainer.html")

    async def projector(self, request: Request) -> Response:
        """Return the roster without names."""
        return self._roster(request, "projector.html")

    async def export(self, request: Request) -> Response:
        """Return the results so far, as a file."""
        self.guard.admit(request, None)
        kind = request.path_params["kind"]
        if kind not in export.KINDS:
            raise HTTPException(404, "There is no such export.")
        name = f"{self.session.plan.id}.{kind}"
        return Response(
            export.text(
                self.session.roster, self.session.journal, kind, self.session.journal.now()
            ),
            media_type=export.KINDS[kind],
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    def _roster(self, request: Request, template: str) -> Response:
        self.guard.admit(request, None)
        facts = {"title": self.session.plan.title}
        return TEMPLATES.TemplateResponse(request, template, facts)


def _home(visitor: Visitor) -> str:
    return "/trainer" if visitor.number == TRAINER else f"/seat/{visitor.number}"
