"""Actions: the buttons of a participant, and the trainer's for one seat and for all."""

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from faultlab.core.errors import BadInput
from faultlab.lab.model import Limit, Truth
from faultlab.learn import mystery
from faultlab.workshop.access import Keys
from faultlab.workshop.guard import Guard
from faultlab.workshop.journal import Event
from faultlab.workshop.master import Master
from faultlab.workshop.roster import Seat
from faultlab.workshop.session import Session
from faultlab.workshop.solo_session import SoloSession
from faultlab.workshop.surprise import Surprise
from faultlab.workshop.terminals import Terminals


@dataclass
class Actions:
    """The buttons of one class."""

    session: Session
    master: Master
    keys: Keys
    guard: Guard
    terminals: Terminals

    async def seat(self, request: Request) -> Response:
        """Run an action of a participant. `turn`: the turn of the page that the button is on."""
        number = request.path_params["seat"]
        visitor = self.guard.admit(request, number)
        seat = self.session.roster.seat(number)
        facts = await self.guard.facts(request, visitor)
        if facts.get("turn", seat.at + 1) != seat.at + 1:
            raise HTTPException(409, "This was meant for another lab.")
        if self.session.roster.paused and not visitor.trainer:
            raise HTTPException(409, "The class has ended or is paused.")
        if request.path_params["act"] == "hand":
            self.master.hand(seat, facts.get("up"))
        else:
            await self._act(request.path_params["act"], seat, facts)
        return JSONResponse({})

    async def _act(self, act: str, seat: Seat, facts: dict[str, Any]) -> None:
        """Do what a button says. Raises HTTPException for one that is not there."""
        match act:
            case "choose" if isinstance(self.session, SoloSession):
                self.session.choose(seat, *_words(facts, "lab"))
            case "mystery" if isinstance(self.session, SoloSession):
                await self.session.draw(seat, **options(facts))
            case "remove" if isinstance(self.session, SoloSession):
                self.session.remove(seat)
            case "over" if isinstance(self.session, SoloSession):
                self.session.restore(seat)
            case "check":
                await self.session.check(seat)
            case "hint":
                await self.session.hint(seat)
            case "diagnose":
                self.session.answer(seat, *_faults(facts), sure=_sure(facts))
            case "restart":
                await self.session.restart(seat, *_words(facts, "daemon"))
            case "limit":
                (daemon,) = _words(facts, "daemon")
                await self.session.limit(seat, daemon, _limit(facts))
            case "give-up":
                self.session.give_up(seat)
            case "next":
                self.session.go_on(seat)
            case _:
                raise HTTPException(404, "There is no such button.")

    async def trainer(self, request: Request) -> Response:
        """Run an action of the trainer for one seat."""
        number = request.path_params["seat"]
        visitor = self.guard.admit(request, None)
        self.guard.admit(request, number)
        seat = self.session.roster.seat(number)
        facts = await self.guard.facts(request, visitor)
        match request.path_params["act"]:
            case "restore":
                self.session.restore(seat)
            case "next":
                self.session.next(seat)
            case "new-link":
                self.keys.replace(number, self.session.plan.hours)
                self.session.note(Event.NEW_LINK, number)
                self.terminals.end_stale()
            case "hint":
                self.master.hint(seat, facts.get("number"))
            case "hand":
                self.master.hand(seat, facts.get("up"))
            case "link":
                pass
            case _:
                raise HTTPException(404, "There is no such button.")
        said = request.path_params["act"].endswith("link")
        return JSONResponse({"link": self._link(request, number)} if said else {})

    async def everybody(self, request: Request) -> Response:
        """Run an action of the trainer for all seats."""
        visitor = self.guard.admit(request, None)
        facts = await self.guard.facts(request, visitor)
        match request.path_params["act"]:
            case "open":
                self.session.open_block(facts.get("block"))
            case "pause":
                self.session.pause(True)
            case "resume":
                self.session.pause(False)
            case "end":
                await self.session.end()
            case "surprise":
                self.master.surprise(*self._surprise(facts))
            case "call-off":
                self.master.call_off(facts.get("id"))
            case _:
                raise HTTPException(404, "There is no such button.")
        return JSONResponse({})

    def _surprise(self, facts: dict[str, Any]) -> tuple[Surprise, float]:
        """Return what a trainer lets happen, and after how many minutes. Raises BadInput."""
        minutes, number = facts.pop("minutes", 0), facts.pop("seat", None)
        seats = self.session.roster.seats
        known = number is None or number in range(1, len(seats) + 1)
        if not known or isinstance(minutes, bool) or not isinstance(minutes, int | float):
            raise BadInput("Expected a seat of the class, and minutes as a number.")
        names = [seats[number - 1].name] if number else []
        try:
            return Surprise.model_validate({**facts, "seats": names}), float(minutes)
        except ValidationError as error:
            why = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            raise BadInput(f"{why[:1].upper()}{why[1:]}.") from error

    def _link(self, request: Request, number: int) -> str:
        """Return the link of a seat, for its participant."""
        return f"{self.guard.origin(request)}/join?token={self.keys.token(number)}"


def _words(facts: dict[str, Any], *names: str) -> list[str]:
    """Return these words of what a page sent. Raises BadInput where one is missing."""
    found = [facts.get(name) for name in names]
    if not all(isinstance(word, str) and len(word) < 100 for word in found):
        raise BadInput(f"Expected {', '.join(names)}.")
    return [str(word) for word in found]


def _faults(facts: dict[str, Any]) -> list[list[str]]:
    """Return the words for each fault of an answer, `also` the further ones. Raises BadInput."""
    also = facts.get("also", [])
    if not isinstance(also, list) or not all(isinstance(each, dict) for each in also):
        raise BadInput("Expected a list of faults in also.")
    if len(also) >= mystery.MOST_FAULTS:
        raise BadInput(f"An answer names at most {mystery.MOST_FAULTS} faults.")
    return [_words(each, *Truth.model_fields) for each in (facts, *also)]


def _sure(facts: dict[str, Any]) -> int | None:
    """Return how sure an answer is, in per cent; None if it does not say. Raises BadInput."""
    sure = facts.get("sure")
    if sure is None:
        return None
    if not isinstance(sure, int) or isinstance(sure, bool) or not 0 <= sure <= 100:
        raise BadInput("How sure you are is a number from 0 to 100.")
    return sure


def options(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a mystery. Raises BadInput."""
    faults, decoys, hard = (facts.get(name) for name in ("faults", "decoys", "hard"))
    if type(faults) is not int or type(decoys) is not int or type(hard) is not bool:
        raise BadInput("Expected faults and decoys as numbers, and hard.")
    return {"faults": faults, "decoys": decoys, "hard": hard}


def _limit(facts: dict[str, Any]) -> Limit:
    try:
        return Limit.model_validate({key: facts.get(key) for key in ("cpus", "memory")})
    except ValidationError as error:
        raise BadInput("Expected cpus (0.5, 1, …) or memory (512m, 1g).") from error
