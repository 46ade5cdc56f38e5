"""No effect of the control plane is without a point: a hole in the laboratory would go unseen."""

import sys

from tests.lab.points import (
    agent_methods,
    channel_methods,
    opening,
    purpose,
    transactions,
    use_case,
)


def test_transactions_are_found_where_they_are_opened() -> None:
    source = (
        "class A:\n"
        "    async def one(self):\n"
        "        async with self.database.transaction() as tx:\n"
        "            await tx.now()\n"
        "    async def two(self):\n"
        "        async def inner():\n"
        "            async with a.b() as x, database.transaction() as tx:\n"
        "                pass\n"
        "async def three():\n"
        "    async with database.read() as tx:\n"
        "        pass\n"
    )
    assert opening(source) == {"A.one", "A.two.<locals>.inner"}


def test_the_name_that_is_read_from_the_code_is_the_one_that_is_told_at_run_time() -> None:
    class Case:
        def told(self) -> str:
            return use_case(sys._getframe())

    assert Case().told().endswith("<locals>.Case.told")


def test_a_call_is_named_by_what_its_delivery_is_for_or_by_its_caller() -> None:
    class Delivery:
        class purpose:  # noqa: N801 - as the row's column is called
            value = "final"

    def of_delivery() -> str:
        delivery = Delivery  # noqa: F841 - read from the frame
        return purpose(sys._getframe())

    assert of_delivery() == "final"
    assert purpose(sys._getframe()) == "test_points"


def test_every_call_of_a_port_is_known() -> None:
    assert {"create_message", "edit_message", "open_thread", "history"} <= set(channel_methods())
    assert {"open", "prompt", "cancel", "answer", "ack", "close"} <= set(agent_methods())


def test_the_control_plane_has_transactions() -> None:
    assert "commit:control.intake.Intake._commit" in transactions()
    assert len(transactions()) > 25
