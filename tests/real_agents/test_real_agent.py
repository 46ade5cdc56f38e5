"""The main job with agents as people install them, which think with a scripted model."""

import asyncio
import ipaddress
import json
import os

import psutil
import pytest

from openab.agents.host.check import check_agent
from openab.ports.agent import AgentSpec
from openab.text import notices
from tests.acceptance.stage import Broker, Stage
from tests.real_agents.agents import RealAgent
from tests.real_agents.mock_llm import MockModel

only_the_cheapest = pytest.mark.parametrize("agent", ["agentao"], indirect=True)


def broker_of(stage: Stage, agent: RealAgent, model: MockModel) -> Broker:
    """A broker whose agent is the real one."""
    env = agent.env(stage.folder / "agent-home", model)
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in env.items())
    return stage.broker(
        agent_command=agent.command,
        agent_args=agent.args,
        more=f'[recovery]\npolicy = "fail"\n[agent.env]\n{lines}',
    )


def session_ids(broker: Broker) -> list[bytes]:
    """The agent's own ids of the sessions that the broker has."""
    return [row["acp_session_id"] for row in broker.rows("SELECT acp_session_id FROM sessions")]


def agents_of(broker: Broker) -> list[psutil.Process]:
    """The processes below the broker."""
    return psutil.Process(broker.pid).children(recursive=True)


def callees(processes: list[psutil.Process]) -> set[str]:
    """The addresses that these are connected to."""
    opened = [one for process in processes for one in process.net_connections("inet")]
    return {one.raddr[0] for one in opened if len(one.raddr)}


async def test_doctor_finds_it_usable(agent: RealAgent, model: MockModel, stage: Stage) -> None:
    env = {"PATH": os.environ["PATH"], **agent.env(stage.folder / "agent-home", model)}
    checked = await check_agent(
        AgentSpec(
            name=agent.name,
            command=agent.command,
            args=agent.args,
            env=env,
            working_dir=str(stage.folder),
        )
    )

    assert checked.failure is None
    assert checked.agent_name
    assert checked.agent_version == agent.version
    assert checked.can_load


@pytest.mark.slow
@only_the_cheapest
async def test_it_answers_works_and_remembers_over_a_restart(
    agent: RealAgent, model: MockModel, stage: Stage
) -> None:
    sol = broker_of(stage, agent, model)
    await sol.start()
    tool = f"[[tool={agent.shell_tool} {json.dumps({'command': 'echo made by the tool'})}]]"
    asked = await stage.ask(sol, f"[[delay=0.03]] [[words=150]] {tool} [[say=it was all green]]")

    live = await stage.live(asked.id, "w20", 60)
    assert "all green" not in live.content
    calls = callees(agents_of(sol))
    assert calls
    assert all(ipaddress.ip_address(ip).is_loopback for ip in calls)
    answer = await stage.answer(asked.id, sol, "it was all green")
    await stage.settled(asked)
    assert f"✅ `{agent.shell_tool}" in answer.content
    assert "".join(f"w{n} " for n in range(1, 151)) in answer.content
    assert "made by the tool" in model.requests[-1].results[0]

    before = session_ids(sol)
    assert await sol.stop() == 0
    await sol.start()
    again = await stage.ann.say(asked.id, "[[say=the second answer]]")
    told = await stage.answer(asked.id, sol, "the second answer", 60)
    await stage.settled(again)
    assert notices.context_lost() not in told.content
    assert session_ids(sol) == before
    assert "it was all green" in model.requests[-1].said("assistant")
    assert "made by the tool" in model.requests[-1].said("tool")


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_kill_in_the_middle_costs_only_that_turn(
    agent: RealAgent, model: MockModel, stage: Stage
) -> None:
    sol = broker_of(stage, agent, model)
    await sol.start()
    asked = await stage.ask(sol, "[[say=the first answer]]")
    await stage.answer(asked.id, sol, "the first answer", 60)
    await stage.settled(asked)
    cut_off = await stage.ann.say(asked.id, "[[delay=0.05]] [[words=2000]]")
    await stage.live(asked.id, "w10", 30)
    before, running = session_ids(sol), agents_of(sol)
    assert running
    await sol.kill()
    _, left = await asyncio.to_thread(psutil.wait_procs, running, 10)
    assert not left

    await sol.start()
    interrupted = await stage.answer(asked.id, sol, notices.interrupted_by_restart())
    assert "w1 w2 w3 " in interrupted.content
    await stage.settled(cut_off, "😱")
    third = await stage.ann.say(asked.id, "[[say=the third answer]]")
    answer = await stage.answer(asked.id, sol, "the third answer", 60)
    await stage.settled(third)

    heard = model.requests[-1]
    if agent.survives_kill:
        assert session_ids(sol) == before
        assert notices.context_lost() not in answer.content
        assert "the first answer" in heard.said("assistant")
    else:
        assert session_ids(sol) != before
        assert notices.context_lost() in answer.content
        assert "You: the first answer" in heard.asked
        assert "You: w1 w2 w3 " in heard.asked
