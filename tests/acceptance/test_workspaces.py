"""Threads with worktrees of their own, by the process: asked for by name, kept over a kill."""

import subprocess
from pathlib import Path

from tests.acceptance.stage import Broker, Stage


def a_repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.txt").write_text("first\n")
    named = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    for words in (("init", "-q"), ("add", "."), (*named, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def worked_in(sol: Broker) -> list[str]:
    """The folder of each session that an agent was asked to open."""
    told = [line["message"] for line in sol.agent_lines if isinstance(line.get("message"), dict)]
    return [each["params"]["cwd"] for each in told if "cwd" in (each.get("params") or {})]


def branches(repository: Path) -> set[str]:
    command = ["git", "-C", str(repository), "branch", "--format=%(refname:short)"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


async def test_a_thread_works_in_a_worktree_of_the_folder_that_was_asked_for(
    stage: Stage,
) -> None:
    repository = a_repository(stage.folder / "api")
    more = '[workspace]\nper_thread = "worktree"\n[workspace.aliases]\napi = "~/api"\n'
    sol = stage.broker(more=more)
    await sol.start()
    asked = await stage.ask(sol, "[[ws:@api]]\n[[title:The login]]\n[[say=one]]")
    other = await stage.ask(sol, "[[ws:@api]]\n[[title:The logout]]\n[[say=two]]")
    lost = await stage.ask(sol, "[[ws:@gone]]\n[[say=three]]")
    await stage.answer(asked.id, sol, "one")
    await stage.answer(other.id, sol, "two")
    await stage.answer(lost.id, sol, "There is no workspace @gone here. Known are: @api.")
    await sol.kill()
    await sol.start()
    await stage.ann.say(asked.id, "[[say=four]]")
    await stage.answer(asked.id, sol, "four")
    own = [sol.home / "workspaces" / sol.bot.id / each.id / "api" for each in (asked, other)]
    assert set(worked_in(sol)) == {str(tree) for tree in own}
    assert [(tree / "a.txt").read_text() for tree in own] == ["first\n"] * 2
    assert {each.name for each in stage.discord.threads(stage.channel)} >= {
        "The login",
        "The logout",
    }
    assert {f"openab/{asked.id}", f"openab/{other.id}"} < branches(repository)
    assert await sol.stop() == 0
