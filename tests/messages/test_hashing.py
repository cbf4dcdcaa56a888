"""What makes two acts the same, and a step's idempotency key: vectors that may never change."""

import hashlib

import msgspec
import pytest

from lessor.messages.action import AnyAction, Check, Click, Commit, Press, Scroll, Select, Type
from lessor.messages.hashing import payload_hash
from lessor.messages.ids import request_key
from lessor.messages.request import Act

ACT = Act(id="a", lease="l", claim=1, deadline_ms=5, sequence=1, revision="v1", action=Click(ref="e1"))


@pytest.mark.parametrize(
    ("task", "step", "key"),
    [
        ("invoice-42", "pay", hashlib.sha256(b"invoice-42:pay").hexdigest()),
        ("t1", "s1", "611122acf4d89ef91e596ef47e70bfc4b5c46aa86f716b4e324d0e42055bc795"),
        ("ü", "é", "25caa89946c5d438b942ab7e4ea3c8029da01a35962412b7364b9935f0d3352e"),
    ],
)
def test_s17_request_key_is_sha256_of_task_and_step(task: str, step: str, key: str) -> None:
    assert request_key(task, step) == key


def test_s17_other_tasks_and_steps_have_other_keys() -> None:
    keys = {request_key(task, step) for task in ("t1", "t2", "t3") for step in ("s1", "s2", "s3")}
    assert len(keys) == 9


def test_payload_hash_is_stable() -> None:
    assert payload_hash(ACT) == "560120e0cf7866081d1978a37638a459ff2b6df04ab06ded4d75671eb10e6015"


@pytest.mark.parametrize(
    "same",
    [
        msgspec.structs.replace(ACT, id="b"),
        msgspec.structs.replace(ACT, deadline_ms=99),
        msgspec.structs.replace(ACT, budget_s=99.0),
        msgspec.structs.replace(ACT, claim=2),
        msgspec.structs.replace(ACT, sequence=2),
        msgspec.structs.replace(ACT, tab="main", match="target"),
    ],
)
def test_s09_what_identifies_the_delivery_is_not_payload(same: Act) -> None:
    assert payload_hash(same) == payload_hash(ACT)


KEY = request_key("t", "s")
OTHERS: list[AnyAction] = [
    Click(ref="e2"),
    Type(ref="e1", text=""),
    Type(ref="e1", text="x"),
    Select(ref="e1", options=()),
    Select(ref="e1", options=("a",)),
    Select(ref="e1", options=("a", "b")),
    Check(ref="e1"),
    Check(ref="e1", on=False),
    Press(key="Enter"),
    Press(key="Enter", ref="e1"),
    Scroll(ref="e1"),
    Scroll(by_px=1),
]


def test_s09_every_difference_in_what_is_done_is_another_payload() -> None:
    acts = [
        ACT,
        *(msgspec.structs.replace(ACT, action=action) for action in OTHERS),
        msgspec.structs.replace(ACT, tab="other"),
        msgspec.structs.replace(ACT, revision="v2"),
        msgspec.structs.replace(ACT, match="page"),
        msgspec.structs.replace(ACT, step=Commit(task="t", step="s")),
        msgspec.structs.replace(ACT, step=Commit(task="t", step="s", request_key=KEY)),
    ]
    assert len({payload_hash(act) for act in acts}) == len(acts)
