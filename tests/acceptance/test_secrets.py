"""What must not get out: the token to agents and logs, people's words to the log."""

import psutil

from tests.acceptance import audit
from tests.acceptance.stage import Stage

_PRIVATE = "the launch code is swordfish"


async def test_the_token_reaches_no_agent_and_no_log(stage: Stage) -> None:
    sol = stage.broker(environ={"MY_SECRET": "hunter2", "OPENAB_LOG": "debug"})
    await sol.start()
    asked = await stage.ask(sol, f"[[stderr={sol.bot.token}]][[say={sol.bot.token} ]][[hang]]")
    await stage.discord.wait_thread(asked)
    await sol.logged("agent_session_opened")
    opened = await sol.logged("agent_session_opened")
    environ = psutil.Process(int(opened["pid"])).environ()
    assert sol.bot.token not in "".join(environ.values())
    assert "hunter2" not in environ.values()
    assert {"HOME", "PATH"} <= environ.keys()
    assert not {"OPENAB_HOME", "OPENAB_LOG"} & environ.keys()
    await stage.live(asked.id, "working")
    pending = await stage.ann.slash(asked.id, "cancel", sol.bot)
    await pending.answer()
    await stage.answer(asked.id, sol, "Cancelled by ann")
    assert await sol.stop() == 0
    audit.check_log(sol.log_file.read_text(), sol.bot.token)


async def test_what_people_and_agents_say_stays_out_of_the_log(stage: Stage) -> None:
    sol = stage.broker()
    await sol.start()
    asked = await stage.ask(
        sol, f"{_PRIVATE} [[say={_PRIVATE[::-1]}]][[tool=execute:{_PRIVATE}:0]]"
    )
    await stage.answer(asked.id, sol, _PRIVATE[::-1])
    failing = await stage.ann.say(asked.id, f"[[say={_PRIVATE}]][[fail=-32603:no luck]]")
    await stage.settled(failing, "😱")
    assert await sol.stop() == 0
    told = [str(line) for line in sol.log if line["level"] != "debug"]
    assert told
    assert [line for line in told if _PRIVATE in line or _PRIVATE[::-1] in line] == []
