"""Whose turn it is when the page is free again."""

from dataclasses import replace

from lessor.lease.verdict import Again, Verdict


def next_turn(verdict: Verdict) -> Verdict:
    """Let the next call of the lane, then the questions that waited, be decided again.

    In that order: a question about a call that still waits must find it on the page or in the lane.
    """
    desk = verdict.desk
    if desk.operation is not None:
        return verdict
    again = tuple(Again(asked) for asked in (*desk.lane, *desk.questions))
    desk = replace(desk, questions=(), lane=())
    return replace(verdict, desk=desk, effects=(*verdict.effects, *again))
