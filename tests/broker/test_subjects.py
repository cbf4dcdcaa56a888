"""Names are built and parsed by one module, so that what is published is what is heard."""

import pytest

from lessor.broker import subjects
from lessor.broker.subjects import Shard, ToHost, ToList, ToProfile, ToRun
from lessor.messages.ids import Caller, ProfileKey, RunKey

ANN = Caller("acme", "ann")
NAMES = ["shop", "run", "p", "r", "h", "list", "act", "renew", "own", "journal", "7", "lessor", "v1"]


@pytest.mark.parametrize("name", NAMES)
def test_f15_what_is_built_is_what_is_parsed(name: str) -> None:
    key, run = ProfileKey("acme", name), RunKey("acme", name)

    assert ToProfile(ANN, key, "act") == subjects.parse(subjects.profile(ANN, key, "act"))
    assert ToProfile(ANN, key, "act", 7) == subjects.parse(f"{subjects.route(key, 'ann', 7)}.act")
    assert ToRun(ANN, run, "take") == subjects.parse(subjects.run(ANN, run, "take"))
    assert ToHost(ANN, name) == subjects.parse(subjects.renew(ANN, name))


def test_a_list_is_parsed() -> None:
    assert ToList(ANN) == subjects.parse(subjects.listing(ANN))


@pytest.mark.parametrize(
    "subject",
    [
        "lessor.v1.acme.ann.p.Shop.act",
        "lessor.v1.acme.ann.p.-shop.act",
        "lessor.v1.acme.ann.p.shop.x7.act",
        "lessor.v1.acme.ann.p.shop.07.act",
        "lessor.v1.acme.ann.q.shop.act",
        "lessor.v2.acme.ann.p.shop.act",
        "lessor.v1.acme.ann.p.shop",
        "lessor.v1.acme.list",
        f"lessor.v1.acme.ann.p.{'a' * 64}.act",
        "lessor.v1.acme.ann.p.shop\n.act",
    ],
)
def test_what_is_no_name_is_refused(subject: str) -> None:
    assert subjects.parse(subject) is None


def test_a_forwarded_request_keeps_its_subject() -> None:
    asked = subjects.profile(ANN, ProfileKey("acme", "shop"), "acquire")
    forwarded = subjects.forward("h1", asked)

    assert forwarded.startswith(subjects.forwarded_to("h1").removesuffix(">"))
    assert asked == subjects.unforward(forwarded)


@pytest.mark.parametrize("name", NAMES)
def test_a_chain_holds_its_profile_and_no_other(name: str) -> None:
    shard, key = Shard(0), ProfileKey("acme", name)

    for subject in (shard.own(key), shard.journal(key)):
        assert subject.startswith(shard.chain(key).removesuffix(">"))
        assert key == Shard.profile_of(subject)
    assert Shard.is_own(shard.own(key))
    assert not Shard.is_own(shard.journal(key))


@pytest.mark.parametrize(
    ("reply", "is_fine"),
    [
        ("_INBOX.acme.ann.x", True),
        ("_INBOX.acme.ann.x.y", True),
        ("_INBOX.x", True),
        ("_INBOX.x.y", True),
        ("_R_.x.y", True),
        ("_INBOX.acme.bob.x", False),
        ("_INBOX.else.ann.x", False),
        ("_INBOX.acme.*.x", False),
        ("_INBOX.>", False),
        ("_INBOX", False),
        (f"{subjects.HOST_INBOX}.x", False),
        ("$JS.API.STREAM.PURGE.LESSOR_0", False),
        ("lessor.0.p.acme.shop.journal", False),
        ("lessor.v1.acme.ann.p.shop.revoke", False),
        ("lessor.fwd.h1.acme.bob.p.shop.revoke", False),
    ],
)
def test_p17_an_answer_goes_to_its_asker_only(reply: str, is_fine: bool) -> None:
    assert subjects.may_answer("lessor.v1.acme.ann.p.shop.status", reply) is is_fine
