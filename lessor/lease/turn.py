"""Whose turn it is when the page is free again."""

from dataclasses import replace

from lessor.lease.verdict import Again, Verdict


def next_turn(verdict: Verdict) -> Verdict:
    """Let the questions that waited and the next call of the lane be decided again."""
    desk = verdict.desk
    if desk.operation is not None:
        return verdict
    again = tuple(Again(asked) for asked in (*desk.questions, *desk.lane))
    desk = replace(desk, questions=(), lane=())
    return replace(verdict, desk=desk, effects=(*verdict.effects, *again))
