"""The documents of a tab's frames: which session and which isolated world each is read in."""

from dataclasses import dataclass

from lessor.browser.cdp import Cdp
from lessor.browser.views import frame_key

FRAMES_MAX = 256


@dataclass(frozen=True, slots=True)
class World:
    """The isolated world of one document. `unique` never comes again; `number` may, in another process."""

    unique: str
    number: int


@dataclass(frozen=True, slots=True)
class Place:
    """A frame's document. Frames of the page's own process share its session; others have one of their own."""

    cdp: Cdp
    frame: str
    world: World


class Frames:
    """By frame id, as the sessions' events tell. The main document is not among them."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}

    def __repr__(self) -> str:
        return f"<Frames {len(self._places)}>"

    def came(self, place: Place) -> None:
        """A document is there, in the place of the frame's last one."""
        self._places.pop(place.frame, None)
        self._places[place.frame] = place
        while len(self._places) > FRAMES_MAX:
            self._places.pop(next(iter(self._places)))

    def went(self, unique: str) -> None:
        self._places = {frame: place for frame, place in self._places.items() if place.world.unique != unique}

    def cleared(self, cdp: Cdp) -> None:
        """Every document of that session is gone."""
        self._places = {frame: place for frame, place in self._places.items() if place.cdp is not cdp}

    def of(self, frame: str) -> Place | None:
        return self._places.get(frame)

    def sessions(self) -> tuple[Cdp, ...]:
        """Of all processes that frames are in."""
        return tuple(dict.fromkeys(place.cdp for place in self._places.values()))

    def by_key(self, key: str) -> Place | None:
        """The frame that a reference names."""
        return next((place for frame, place in self._places.items() if frame_key(frame) == key), None)
