"""Every predicate of the checker fails on a planted violation, and on nothing in a history that is right."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import pytest

from lessor.check import check
from lessor.check.history import (
    Acknowledged,
    AnyMoment,
    Came,
    Concluded,
    Dropped,
    Healed,
    History,
    Hit,
    Ordered,
    Owned,
    Page,
    Rest,
    RunWritten,
    Sent,
    Told,
    Wrote,
    lines,
    read,
)
from lessor.errors import Code, Effect, problem
from lessor.limits import Limits
from lessor.messages import wire
from lessor.messages.action import Click, Commit, Observation
from lessor.messages.ids import Caller
from lessor.messages.record import (
    Activated,
    AnyRecord,
    Attached,
    Entry,
    Intent,
    LeaseClosed,
    LeaseClosing,
    LeaseGranted,
    LeaseRenewed,
    Outcome,
    Own,
    ProfileChanged,
    Reconciled,
    Scope,
    SealCommitted,
    Skipped,
)
from lessor.messages.reply import Acted, ActOutcome, AnyReply, Granted, LeaseView, Observed, Refused
from lessor.messages.request import VERBS, Acquire, Act, AskOutcome, Close, Observe, ProfileRequest
from lessor.messages.run import RunRecord, RunStatus

ME = Caller("acme", "alice")
PROFILE = "acme/shop"
KEY = "0" * 64


@dataclass
class Story:
    """Tells one profile's history, a moment after another."""

    told: History = field(default_factory=list[AnyMoment])
    at_ms: int = 1_000_000
    sequence: int = 0
    epoch: int = 0
    slots: int = 0

    def add(self, moment: AnyMoment) -> None:
        self.told.append(moment)

    def wait(self, seconds: float) -> None:
        self.at_ms += round(seconds * 1000)

    def own(self, nonce: str = "") -> None:
        self.sequence += 1
        self.epoch = self.sequence
        own = Own(
            host="host-1",
            incarnation="one",
            nonce=nonce or f"own-{self.sequence}",
            boot="boot",
            at_ms=self.at_ms,
            state="active",
            principal=ME.principal,
        )
        self.add(Owned(at_ms=self.at_ms, profile=PROFILE, sequence=self.sequence, own=own))
        self.add(Acknowledged(at_ms=self.at_ms, profile=PROFILE, sequence=self.sequence))

    def write(self, *records: AnyRecord, epoch: int | None = None, acknowledged: bool = True) -> None:
        self.sequence += 1
        entry = Entry(
            epoch=epoch or self.epoch,
            nonce=f"nonce-{self.sequence}",
            boot="boot",
            at_ms=self.at_ms,
            records=records,
        )
        self.add(Wrote(at_ms=self.at_ms, profile=PROFILE, sequence=self.sequence, entry=entry))
        if acknowledged:
            self.add(Acknowledged(at_ms=self.at_ms, profile=PROFILE, sequence=self.sequence))

    def run(self, status: RunStatus = RunStatus.RUNNING, claim: int = 1, run: str = "r1") -> int:
        self.sequence += 1
        record = RunRecord(principal=ME.principal, status=status, attempt=1, deadline_unix_ms=2 * 10**12, claim=claim)
        self.add(RunWritten(at_ms=self.at_ms, run=f"acme/{run}", revision=self.sequence, record=record))
        return self.sequence

    def grant(self, lease: str = "lease-1", run: str = "r1", revision: int | None = None, instance: str = "b1") -> None:
        if revision is None:
            revision = self.run(run=run)
        self.add(Page(at_ms=self.at_ms, profile=PROFILE, instance=instance, state="up"))
        self.write(
            LeaseGranted(
                lease=lease,
                scope=Scope(tenant="acme", principal="alice", profile="shop", provider="chromium", run=run, attempt=1),
                claim=1,
                worker="w",
                granted_ms=self.at_ms,
                expires_ms=self.at_ms + 600_000,
                cap_ms=self.at_ms + 3_600_000,
                base=0,
                instance=instance,
                target="t",
                run_revision=revision,
                deadline_unix_ms=2 * 10**12,
            )
        )

    def intend(self, sequence: int = 1, key: str | None = KEY, lease: str = "lease-1", run: str = "r1") -> None:
        self.write(
            Intent(
                lease=lease,
                claim=1,
                run=run,
                attempt=1,
                sequence=sequence,
                tab="main",
                do="click",
                target="button",
                target_fingerprint="f",
                payload_hash="h",
                request_key=key,
            )
        )

    def send(self, sequence: int = 1, lease: str = "lease-1", late_ms: int = 0, instance: str = "b1") -> None:
        self.add(
            Sent(
                at_ms=self.at_ms,
                profile=PROFILE,
                instance=instance,
                epoch=self.epoch,
                lease=lease,
                sequence=sequence,
                boot_ms=self.at_ms + late_ms,
                until_ms=self.at_ms + 1,
                act=f"act-{sequence}",
            )
        )

    def hit(self, sequence: int = 1, key: str | None = KEY, lease: str = "lease-1") -> None:
        self.add(
            Hit(
                at_ms=self.at_ms,
                profile=PROFILE,
                lease=lease,
                sequence=sequence,
                epoch=self.epoch,
                request_key=key,
                act=f"act-{sequence}",
            )
        )

    def outcome(self, outcome: ActOutcome = ActOutcome.APPLIED, sequence: int = 1, lease: str = "lease-1") -> None:
        self.write(Outcome(lease=lease, sequence=sequence, outcome=outcome))

    def came(self, request: ProfileRequest, caller: Caller = ME) -> int:
        self.slots += 1
        verb = next(verb for verb, kind in VERBS.items() if kind is type(request))
        body = msgspec.Raw(wire.encode(request))
        self.add(Came(at_ms=self.at_ms, slot=self.slots, caller=caller, profile=PROFILE, verb=verb, body=body))
        return self.slots

    def answer(self, slot: int, reply: AnyReply) -> None:
        self.add(Told(at_ms=self.at_ms, slot=slot, reply=reply))

    def act(self, sequence: int = 1, claim: int = 1) -> int:
        commit = Commit(task="t", step="s", request_key=KEY)
        request = Act(
            id=f"act-{sequence}",
            lease="lease-1",
            claim=claim,
            deadline_ms=self.at_ms + 1000,
            sequence=sequence,
            revision="r",
            action=Click(ref="e1"),
            step=commit,
        )
        return self.came(request)

    def closing(self, reason: str = "ended", *, seal: bool = True, revision: int | None = None) -> None:
        if revision is None and reason == "ended":
            slot = self.came(Close(id="c", lease="lease-1", claim=1, deadline_ms=self.at_ms + 1000))
            self.add(Dropped(at_ms=self.at_ms, slots=(slot,)))
        seal_by_ms = self.at_ms + 60_000
        self.write(
            LeaseClosing(lease="lease-1", reason=reason, seal=seal, seal_by_ms=seal_by_ms, run_revision=revision)
        )

    def seal(self, generation: int = 1, base: int = 0, lease: str = "lease-1") -> None:
        self.write(
            SealCommitted(
                lease=lease,
                generation=generation,
                base=base,
                object=f"o{generation}",
                sha256="0",
                size=1,
                key_id="1",
            )
        )

    def closed(self, generation: int | None = 1) -> None:
        self.add(Page(at_ms=self.at_ms, profile=PROFILE, instance="b1", state="gone"))
        receipt: Literal["sealed", "discarded"] = "sealed" if generation else "discarded"
        self.write(
            LeaseClosed(lease="lease-1", reason="ended", receipt=receipt, generation=generation, gone_ms=self.at_ms)
        )


def begun() -> Story:
    story = Story()
    story.own()
    story.write(
        Activated(host="host-1", incarnation="one", boot="boot"),
        ProfileChanged(principal="alice", origins=("https://shop.test",), settle_s=30),
    )
    return story


def leased() -> Story:
    story = begun()
    story.grant()
    return story


def acted() -> Story:
    story = leased()
    slot = story.act()
    story.intend()
    story.send()
    story.hit()
    story.outcome()
    story.answer(slot, Acted(sequence=1, effect=Effect.APPLIED, lease=view(story, 2)))
    return story


def view(story: Story, next_sequence: int, claim: int = 1) -> LeaseView:
    return LeaseView(
        route="r",
        host="host-1",
        lease="lease-1",
        claim=claim,
        next_sequence=next_sequence,
        expires_in_s=10,
        clock_ms=story.at_ms,
    )


def acquire(claim: int = 1) -> Acquire:
    return Acquire(id="a", run="r1", worker="w", claim=claim)


def found(story: Story) -> set[str]:
    return {finding.predicate for finding in check(story.told, Limits())}


def test_a_right_history_has_no_findings() -> None:
    story = acted()
    story.closing()
    story.wait(1)
    story.seal()
    story.closed()
    story.add(Healed(at_ms=story.at_ms))
    story.add(Rest(at_ms=story.at_ms))

    assert set() == found(story)


def test_a_history_survives_its_file() -> None:
    story = acted()

    assert story.told == list(read(lines(story.told)))


Plant = Callable[[], Story]


def fence() -> Story:
    story = leased()
    story.own()
    story.write(Skipped(lease="lease-1", sequence=1), epoch=1)
    return story


def nonce_again() -> Story:
    story = begun()
    story.own("nonce-2")
    return story


def effect_without_intent() -> Story:
    story = leased()
    story.hit()
    return story


def effect_before_acknowledgement() -> Story:
    story = leased()
    intent = Intent(
        lease="lease-1",
        claim=1,
        run="r1",
        attempt=1,
        sequence=1,
        tab="main",
        do="click",
        target="b",
        target_fingerprint="f",
        payload_hash="h",
    )
    story.write(intent, acknowledged=False)
    story.send()
    return story


def effect_twice() -> Story:
    story = acted()
    story.hit()
    return story


def step_twice() -> Story:
    story = acted()
    story.intend(2)
    story.send(2)
    story.hit(2)
    return story


def outcome_twice() -> Story:
    story = acted()
    story.outcome()
    return story


def skipped_in_use() -> Story:
    story = acted()
    story.write(Skipped(lease="lease-1", sequence=1))
    return story


def not_sent_but_hit() -> Story:
    story = leased()
    story.intend()
    story.send()
    story.hit()
    story.outcome(ActOutcome.NOT_SENT)
    return story


def hit_after_verdict() -> Story:
    story = leased()
    story.intend()
    story.send()
    story.outcome(ActOutcome.UNKNOWN)
    story.write(Reconciled(request_key=KEY, verdict="not_sent", evidence="e", by="b", counted=True))
    story.hit()
    return story


def told_nothing_happened() -> Story:
    story = acted()
    concluded = Concluded(
        at_ms=story.at_ms, profile=PROFILE, lease="lease-1", sequence=1, effect=Effect.NONE, act="act-1"
    )
    story.add(concluded)
    return story


def recorded_as_gone() -> Story:
    story = leased()
    story.closing(seal=False)
    closed = LeaseClosed(lease="lease-1", reason="ended", receipt="discarded", gone_ms=story.at_ms)
    story.write(closed)
    return story


def late_input() -> Story:
    story = leased()
    story.intend()
    story.send(late_ms=1)
    return story


def superseded_input_applied() -> Story:
    story = leased()
    story.intend()
    first = story.epoch
    story.own()
    second, story.epoch = story.epoch, first
    story.send()
    story.epoch = second
    story.outcome()
    return story


def answer_before_outcome() -> Story:
    story = leased()
    slot = story.act()
    story.intend()
    story.send()
    story.answer(slot, Acted(sequence=1, effect=Effect.APPLIED, lease=view(story, 2)))
    return story


def outcome_and_answer_differ() -> Story:
    story = acted()
    slot = story.act()
    refused = problem(Code.NOT_SENT, "no")
    story.answer(slot, Refused(error=refused))
    return story


def gap() -> Story:
    story = leased()
    story.intend(2)
    return story


def reattach_restarts() -> Story:
    story = acted()
    slot = story.came(acquire())
    story.answer(slot, Granted(reattached=True, lease=view(story, 1)))
    return story


def granted_twice() -> Story:
    story = leased()
    story.grant("lease-2", "r2", instance="b2")
    return story


def page_still_up() -> Story:
    story = leased()
    story.closing(seal=False)
    story.write(LeaseClosed(lease="lease-1", reason="ended", receipt="discarded"))
    story.grant("lease-2", "r2", instance="b2")
    return story


def torn_down_while_needed() -> Story:
    story = leased()
    revision = story.run()
    story.closing(revision=revision)
    return story


def claim_falls() -> Story:
    story = leased()
    story.write(Attached(lease="lease-1", claim=1, worker="w", run_revision=1))
    return story


def grant_to_another_claim() -> Story:
    story = begun()
    story.grant(revision=story.run(claim=2))
    return story


def old_reading() -> Story:
    story = begun()
    revision = story.run()
    story.run()
    story.wait(6)
    story.grant(revision=revision)
    return story


def renewed_past_cap() -> Story:
    story = leased()
    story.write(LeaseRenewed(lease="lease-1", expires_ms=story.at_ms + 901_000))
    return story


def renewed_when_expired() -> Story:
    story = leased()
    story.wait(601)
    story.write(LeaseRenewed(lease="lease-1", expires_ms=story.at_ms + 60_000))
    return story


def intent_when_expired() -> Story:
    story = leased()
    story.wait(601)
    story.intend()
    return story


def expired_seals() -> Story:
    story = leased()
    story.wait(601)
    story.closing("expired")
    return story


def sealed_too_late() -> Story:
    story = leased()
    story.closing()
    story.wait(61)
    story.seal()
    return story


def seal_overwrites() -> Story:
    story = leased()
    story.closing()
    story.seal(generation=2)
    return story


def seal_after_its_lease() -> Story:
    story = leased()
    story.closing()
    story.closed(None)
    story.seal()
    return story


def unknown_runs_again() -> Story:
    story = leased()
    story.intend()
    story.outcome(ActOutcome.UNKNOWN)
    story.intend(2)
    return story


def never_torn_down() -> Story:
    story = leased()
    story.add(Healed(at_ms=story.at_ms))
    story.run(RunStatus.FINISHED)
    story.wait(400)
    story.add(Rest(at_ms=story.at_ms))
    return story


def stranger() -> Story:
    story = leased()
    slot = story.came(acquire(), Caller("acme", "mallory"))
    story.answer(slot, Granted(lease=view(story, 1)))
    return story


def not_done() -> Story:
    story = begun()
    story.add(Rest(at_ms=story.at_ms, unfinished=("r1",)))
    return story


def acknowledged_and_gone() -> Story:
    story = begun()
    story.add(Acknowledged(at_ms=story.at_ms, profile=PROFILE, sequence=99))
    return story


def answered_twice() -> Story:
    story = acted()
    story.answer(1, Acted(sequence=1, effect=Effect.APPLIED, lease=view(story, 2)))
    return story


def never_answered() -> Story:
    story = leased()
    story.act()
    story.add(Rest(at_ms=story.at_ms))
    return story


def left_over() -> Story:
    story = begun()
    story.add(Rest(at_ms=story.at_ms, browsers=1))
    return story


def ordered_too_late() -> Story:
    story = leased()
    story.intend()
    story.add(
        Ordered(at_ms=story.at_ms, profile=PROFILE, epoch=1, lease="lease-1", sequence=1, boot_ms=10, deadline_ms=10)
    )
    return story


def replaced_and_served() -> Story:
    story = leased()
    story.write(Attached(lease="lease-1", claim=2, worker="w", run_revision=1))
    slot = story.came(Observe(id="o", lease="lease-1", claim=1, deadline_ms=story.at_ms + 1000))
    story.answer(slot, Observed(page=Observation(url="u", title="t", revision="r")))
    return story


def shown_anothers_lease() -> Story:
    story = leased()
    slot = story.came(AskOutcome(id="o", lease="lease-1", claim=7, sequence=1))
    story.answer(slot, Refused(error=problem(Code.PENDING, "wait"), lease=view(story, 1)))
    return story


@pytest.mark.parametrize(
    ("predicate", "plant"),
    [
        ("P1", fence),
        ("P2", nonce_again),
        ("P3", effect_without_intent),
        ("P3", effect_before_acknowledgement),
        ("P4", effect_twice),
        ("P4", step_twice),
        ("P5", outcome_twice),
        ("P5", skipped_in_use),
        ("P6", not_sent_but_hit),
        ("P6", hit_after_verdict),
        ("P6", told_nothing_happened),
        ("P6", recorded_as_gone),
        ("P7", late_input),
        ("P7", superseded_input_applied),
        ("P8", answer_before_outcome),
        ("P8", outcome_and_answer_differ),
        ("P9", gap),
        ("P9", reattach_restarts),
        ("P10", granted_twice),
        ("P10", page_still_up),
        ("P11", torn_down_while_needed),
        ("P11", claim_falls),
        ("P11", grant_to_another_claim),
        ("P11", old_reading),
        ("P12", renewed_past_cap),
        ("P12", renewed_when_expired),
        ("P12", intent_when_expired),
        ("P13", expired_seals),
        ("P13", sealed_too_late),
        ("P14", seal_overwrites),
        ("P14", seal_after_its_lease),
        ("P15", unknown_runs_again),
        ("P16", never_torn_down),
        ("P17", stranger),
        ("P18", not_done),
        ("P19", acknowledged_and_gone),
        ("P20", answered_twice),
        ("P20", never_answered),
        ("P20", left_over),
        ("P21", ordered_too_late),
        ("contract 7", replaced_and_served),
        ("contract 7", shown_anothers_lease),
    ],
)
def test_a_planted_violation_is_found(predicate: str, plant: Plant) -> None:
    assert predicate in found(plant())
