"""Slots under any order of reservations, releases and cancelled waits: never too many, in order, none lost."""

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runner.core.slots import Slot, Slots
from tests.support.requirement import requirement


class SlotsMachine(RuleBasedStateMachine):
    """Slots beside a plain list of who came when."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = Slots(3)
        self.line: list[Slot] = []
        """Everybody who has not released, in order of arrival."""

    @rule()
    def reserve(self) -> None:
        self.line.append(self.slots.reserve())

    @precondition(lambda self: bool(self.line))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        leaving = data.draw(st.sampled_from(self.line))
        self.line.remove(leaving)
        leaving.release()
        if data.draw(st.booleans()):
            leaving.release()  # twice is harmless

    @invariant()
    def never_more_than_there_are(self) -> None:
        assert self.slots.taken == min(3, len(self.line))
        assert self.slots.full == (len(self.line) >= 3)

    @invariant()
    def first_come_first_served(self) -> None:
        holding = [slot for slot in self.line if slot.queue_position == 0]
        waiting = [slot for slot in self.line if slot.queue_position > 0]
        assert self.line == holding + waiting
        assert [slot.queue_position for slot in waiting] == list(range(1, len(waiting) + 1))
        assert len(holding) == self.slots.taken


TestSlots = SlotsMachine.TestCase
TestSlots.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@requirement("S2-LE-3", "S2-GR-3")
@settings(deadline=None)
@given(total=st.integers(1, 5), cancelled=st.sets(st.integers(0, 19)), order=st.permutations(range(20)))
async def test_waits_that_are_cancelled_lose_no_slot(total: int, cancelled: set[int], order: list[int]) -> None:
    slots, alive, peak, served = Slots(total), 0, 0, []
    scopes = [anyio.CancelScope() for _ in range(20)]
    gates = [anyio.Event() for _ in range(20)]
    reserved = [slots.reserve() for _ in range(20)]

    async def live(number: int) -> None:
        nonlocal alive, peak
        try:
            with scopes[number]:
                await reserved[number].wait()
                served.append(number)
                alive, peak = alive + 1, max(peak, alive + 1)
                try:
                    await gates[number].wait()
                finally:
                    alive -= 1
        finally:
            reserved[number].release()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(live, number)
            for number in order:
                scopes[number].cancel() if number in cancelled else gates[number].set()
                await anyio.lowlevel.checkpoint()

    assert peak <= total
    assert slots.taken == 0
    assert set(range(20)) - cancelled <= set(served)
    assert served == sorted(served)
