"""Page: the HTML pages of a class, and its results as a file."""

from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.templating import Jinja2Templates

from faultlab.workshop import documents, export, review
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
        """Exchange the token of a link for a cookie.

        Any page can lead a browser here. One that has a seat is asked before it gets another one,
        and the guard refuses an answer that does not come from our own page.
        """
        token = request.query_params.get("token", "")
        visitor = self.keys.visitor(token)
        if visitor is None:
            raise self.guard.stranger(request, "This link is not valid, or no longer.")
        answer: Response
        if request.method == "POST":
            answer = JSONResponse({"home": _home(visitor)})
        elif self.guard.visitor(request) in (None, visitor):
            answer = RedirectResponse(_home(visitor), 303)
        else:
            facts = {"here": self._name(self.guard.visitor(request)), "there": self._name(visitor)}
            return TEMPLATES.TemplateResponse(request, "join.html", facts)
        secure = self.guard.secure
        answer.set_cookie(self.guard.cookie, token, httponly=True, secure=secure, samesite="lax")
        return answer

    def _name(self, visitor: Visitor | None) -> str:
        if visitor is None or visitor.trainer:
            return "the trainer"
        return self.session.roster.seat(visitor.number).name

    async def seat(self, request: Request) -> Response:
        """Return the page of a participant, which the trainer can see too."""
        seat = request.path_params["seat"]
        visitor = self.guard.admit(request, seat)
        facts = {"seat": seat, "trainer": visitor.trainer}
        return TEMPLATES.TemplateResponse(request, "seat.html", facts)

    async def document(self, request: Request) -> Response:
        """Return a document of the project that a lesson links to."""
        number, path = request.path_params["seat"], request.path_params["path"]
        visitor = self.guard.admit(request, number)
        reader = None if visitor.trainer else self.session.roster.seat(number)
        lessons = self.session.lessons(reader)
        file = documents.find(path, lessons)
        if file is None:
            raise HTTPException(404, "This document is not here, or cannot be read yet.")
        if file.suffix != ".md":
            return FileResponse(file, media_type=documents.kind(file))
        text = file.read_text()
        here = documents.Place(str(Path(path).parent), f"/seat/{number}/read/", lessons)
        body = Markup(documents.html(text, here))
        facts = {"title": documents.title(text), "body": body}
        return TEMPLATES.TemplateResponse(request, "document.html", facts)

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

    async def review(self, request: Request) -> Response:
        """Return the class so far as the draft of a post-mortem."""
        self.guard.admit(request, None)
        text = review.markdown(self.session.roster, self.session.journal)
        facts = {
            "title": f"Review: {self.session.plan.title}",
            "body": Markup(documents.html(text)),
        }
        return TEMPLATES.TemplateResponse(request, "document.html", facts)

    def _roster(self, request: Request, template: str) -> Response:
        self.guard.admit(request, None)
        facts = {"title": self.session.plan.title}
        return TEMPLATES.TemplateResponse(request, template, facts)


def _home(visitor: Visitor) -> str:
    return "/trainer" if visitor.number == TRAINER else f"/seat/{visitor.number}"
