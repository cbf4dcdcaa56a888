"""How to see whether a profile's state is still logged in (contract 25)."""

from typing import Annotated

import msgspec

from lessor.messages.ids import Url


class HealthCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Open `url`, which is of one of the profile's origins: it must answer below 400 and show `text`, and the browser
    must then have a cookie of that name for it. With neither, it must not lead to another path, such as a login's."""

    url: Url
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] | None = None
    cookie: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None
