"""The waits between attempts to reach a server."""

from runner.tools.upstream.server import LONGEST_WAIT, BackOff


def test_the_first_death_of_a_working_server_costs_no_wait() -> None:
    back_off = BackOff()
    back_off.died(100.0)
    assert back_off.remaining(100.0) == 0
    back_off.died(100.0)
    assert back_off.remaining(100.0) == 1.0


def test_waits_double_up_to_the_longest_and_pass_with_time() -> None:
    back_off = BackOff()
    waits = []
    for _ in range(2000):
        back_off.refused(0.0)
        waits.append(back_off.remaining(0.0))
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == LONGEST_WAIT
    assert back_off.remaining(LONGEST_WAIT) == 0


def test_work_that_was_done_clears_the_past() -> None:
    back_off = BackOff()
    back_off.refused(0.0)
    back_off.worked()
    assert back_off.remaining(0.0) == 0
    back_off.died(0.0)
    assert back_off.remaining(0.0) == 0
