"""A scripted ACP agent in one standard-library file: it answers by script and misbehaves by mode.

Run it as `python -m openab.simulator.agent` or by path. What it does in a turn is written in the
last text block of the prompt, as steps that are played in order:

    [[say=text]]        one chunk (`\\n` is a line break)     [[chars=text]]      a chunk per character
    [[words=400]]       that many words, one chunk each       [[delay=0.05]]      seconds before each chunk
    [[think=text]]      a thought                             [[wait=2]]          silence
    [[until=/path]]     silence until this file exists
    [[tool=execute:cargo test:2.0]]                           a tool call that takes 2 s
    [[toolfail=execute:cargo test:2.0]]                       the same, failing
    [[toolopen=execute:cargo test]]                           a tool call that is never finished
    [[permission=execute:rm -rf]]                             asks, then says what was answered
    [[plan=first|second]]   [[usage=1000:200000]]             a plan; context use
    [[file=chars:6000]]     [[astral=2000]]                   a code block; astral characters
    [[flood=200000]]        that many chunks at full speed    [[recall]]          what it remembers
    [[line=20000000]]       [[loud=1000000]]                  a chunk, and words on stderr, so long
    [[stderr=text]]         [[child]]                         a process in a session of its own
    [[fail=-32603:text]]    [[stop=refusal]]                  a JSON-RPC error; another stop reason
    [[exit=3]]  [[crash]]  [[hang]]                           ends, dies by SIGKILL, waits for a cancel
    [[script=[["say","a]]b"],["wait",1]]]]                    the same steps as JSON, for any text

A text without steps is echoed word by word. Modes (`--mode`, repeatable) are in `MODES`.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

Json = dict[str, Any]
Step = tuple[str, str]

#: Every way to misbehave, by the moment it shows.
MODES = {
    "noise": "text, bytes that are no UTF-8, null, a number and an array on stdout before each answer",
    "string-ids": "answers carry their id as a string",
    "list-ids": "an answer with a list as id precedes each right one",
    "string-error": "an error is a string, not an object",
    "unknown-updates": "unknown updates, blocks, kinds and notifications before each answer",
    "unknown-stop": "the stop reason is one nobody knows",
    "unknown-requests": "asks for a terminal, a file and something unknown, and says what came back",
    "meta": "`_meta` tries to overwrite arguments",
    "half-line": "dies in the middle of a line",
    "no-newline": "the answer has no line end, then stdout closes",
    "big-line": "a line of 20 MB in each turn",
    "loud-stderr": "1 MB on stderr at the start and in each turn",
    "deaf": "stops reading stdin at the first prompt",
    "silent": "never answers anything",
    "silent-new": "never answers session/new",
    "silent-load": "never answers session/load and session/resume",
    "not-acp": "prints a greeting and ends",
    "version-99": "speaks a protocol version nobody knows",
    "auth": "wants a login before session/new",
    "late-update": "text follows the prompt's answer",
    "early-update": "an update precedes the answer to session/new",
    "reply-before-replay": "answers session/load, then replays",
    "accept-any-id": "session/load of any id succeeds without a replay",
    "resume-refused": "advertises session/resume and does not know it",
    "replay-on-resume": "replays on session/resume too",
    "load-broken": "session/load and session/resume fail for a reason that passes",
    "no-load": "does not advertise session/load",
    "no-resume": "does not advertise session/resume",
    "deaf-to-cancel": "ignores session/cancel",
    "cancel-needs-answer": "ends a cancelled turn only after its permission question is answered",
    "cancel-poison": "a cancel while idle spoils every later prompt",
    "cancel-breaks": "a cancelled prompt fails, and so does every later one",
    "stay-on-eof": "does not end when stdin closes",
    "ignore-sigterm": "does not end on SIGTERM",
    "setsid-child": "each turn starts a process in a session of its own",
    "silent-retry": "a prompt is never answered; a cancel is",
    "config-options": "has a config option `model`: fast or smart",
    "many-options": "has 30 models and 26 agents with descriptions of 140 characters",
    "older-options": "tells models and modes in the older form, and sets them by its own requests",
}
_STEP = re.compile(r"\[\[(script=|[a-z]+(?:=.*?)?\]\])", re.DOTALL)
_WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog")


def parse_steps(text: str) -> list[Step]:
    """The steps written in a text, in order; what is no step is ignored."""
    steps: list[Step] = []
    at = 0
    while found := _STEP.search(text, at):
        at = found.end()
        if found[1] == "script=":
            written, at = json.JSONDecoder().raw_decode(text, at)
            steps += [(str(name), str(rest[0]) if rest else "") for name, *rest in written]
        else:
            name, _, value = found[1][:-2].partition("=")
            steps.append((name, value.replace("\\n", "\n")))
    return steps


def kind_title_seconds(value: str) -> tuple[str, str, float]:
    """`execute:cargo test:2.0` as its three parts; the seconds may be missing."""
    kind, _, rest = value.partition(":")
    title, _, tail = rest.rpartition(":")
    try:
        return kind, title or rest, float(tail)
    except ValueError:
        return kind, rest, 0.0


class Cancelled(Exception):
    """The client cancelled the turn that is being played."""


class Failed(Exception):
    """The turn ends with this JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Wire:
    """Stdout with a lock, the log of everything, and the questions that wait for an answer."""

    def __init__(self, out: BinaryIO, log: Path | None, modes: frozenset[str]) -> None:
        self._out, self._modes = out, modes
        self._lock = threading.Lock()
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log else None
        self._asked: dict[str, tuple[threading.Event, Json]] = {}

    def record(self, event: str, message: object) -> None:
        """Append one durable line to the log."""
        if self._log is None:
            return
        line = {"at": time.time(), "pid": os.getpid(), "event": event, "message": message}
        os.write(self._log, json.dumps(line).encode() + b"\n")
        os.fsync(self._log)

    def raw(self, line: bytes) -> None:
        """Write these bytes, whatever they are."""
        with self._lock:
            self._out.write(line)
            self._out.flush()

    def send(self, **message: Any) -> None:
        """Write one JSON-RPC message."""
        self.record("out", message)
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def answer(self, request_id: Any, **outcome: Any) -> None:
        """Answer a request, as well or as badly as the modes want it."""
        if "list-ids" in self._modes:
            self.send(id=[request_id], result={})
        if "string-error" in self._modes and "error" in outcome:
            outcome = {"error": "boom"}
        if "no-newline" in self._modes and "stopReason" in outcome.get("result", {}):
            message = {"jsonrpc": "2.0", "id": request_id, **outcome}
            self.raw(json.dumps(message).encode())
            os._exit(0)
        self.send(id=str(request_id) if "string-ids" in self._modes else request_id, **outcome)

    def ask(self, method: str, params: Json) -> tuple[threading.Event, Json]:
        """Send a request; its answer is put into the dict before the event is set."""
        request_id = f"ask-{uuid.uuid4()}"
        waiting: tuple[threading.Event, Json] = (threading.Event(), {})
        self._asked[request_id] = waiting
        self.send(id=request_id, method=method, params=params)
        return waiting

    def answered(self, message: Json) -> None:
        """Give an answer to whoever asked."""
        if waiting := self._asked.pop(str(message.get("id")), None):
            waiting[1].update(message)
            waiting[0].set()


class Session:
    """One session: what was said in it, durable when there is a folder for it."""

    def __init__(self, session_id: str, folder: Path | None) -> None:
        self.id = session_id
        self._file = folder / f"{session_id}.jsonl" if folder else None
        self.history: list[Json] = []
        self.cancelled = threading.Event()
        self.running = False
        #: What was chosen here; like a real agent's choice it does not outlive the process.
        self.chosen: dict[str, str] = {}
        if self._file and self._file.exists():
            self.history = [json.loads(line) for line in self._file.read_text().splitlines()]

    def remember(self, who: str, text: str) -> None:
        """Add to the memory, durably, before anything else happens."""
        self.history.append({"who": who, "text": text})
        if self._file:
            with self._file.open("a") as file:
                file.write(json.dumps(self.history[-1]) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def create(self) -> None:
        """Make the session loadable before its first prompt."""
        if self._file:
            self._file.touch()

    def prompts(self) -> list[str]:
        """What people asked, oldest first."""
        return [entry["text"] for entry in self.history if entry["who"] == "user"]


class Player:
    """Plays the steps of one prompt."""

    def __init__(self, wire: Wire, session: Session, modes: frozenset[str], delay: float) -> None:
        self._wire, self._session, self._modes, self._delay = wire, session, modes, delay
        self._tools = 0
        self.stop_reason = "end_turn"
        self.text = ""

    def play(self, text: str) -> None:
        """Play every step of the text; without steps the text is echoed."""
        steps = parse_steps(text)
        for name, value in steps:
            step = getattr(self, f"step_{name}", None)
            if step is None:
                raise Failed(-32602, f"no such step: {name}")
            step(value)
        if not steps:
            self._stream(f"You said: {text}")

    def update(self, kind: str, /, **fields: Any) -> None:
        """Send one session/update."""
        params: Json = {"sessionId": self._session.id, "update": {"sessionUpdate": kind, **fields}}
        if "meta" in self._modes:
            params["_meta"] = {"session_id": "EVIL", "update": {"sessionUpdate": "evil"}, "self": 1}
        self._wire.send(method="session/update", params=params)

    def pause(self, seconds: float) -> None:
        """Wait, or end the turn when it is cancelled."""
        if self._session.cancelled.wait(seconds):
            raise Cancelled

    def chunk(self, text: str) -> None:
        """Send a piece of the answer."""
        self.pause(self._delay)
        self.text += text
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def _stream(self, text: str) -> None:
        for word in re.findall(r"\s*\S+\s*?|\s+", text):
            self.chunk(word)

    def step_say(self, value: str) -> None:
        self.chunk(value)

    def step_chosen(self, _value: str) -> None:
        told = sorted(f"{option}={value}" for option, value in self._session.chosen.items())
        self.chunk(f"chosen: {', '.join(told) or 'nothing'}")

    def step_chars(self, value: str) -> None:
        for character in value:
            self.chunk(character)

    def step_words(self, value: str) -> None:
        for n in range(int(value)):
            self.chunk((" " if n else "") + _WORDS[n % len(_WORDS)])

    def step_flood(self, value: str) -> None:
        line = (
            '{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "%s", "update":'
            ' {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "%d "}}}}\n'
        )
        for at in range(0, int(value), 1000):  # past the log, as fast as the pipe takes it
            numbers = range(at, min(at + 1000, int(value)))
            self._wire.raw("".join(line % (self._session.id, n) for n in numbers).encode())

    def step_file(self, value: str) -> None:
        size = int(value.removeprefix("chars:"))
        body = "".join(f"line {n}: print('hello')\n" for n in range(size // 20 + 1))
        whole = "```python\n" + body[: max(size - 14, 0)] + "\n```"
        for at in range(0, len(whole), 100):
            self.chunk(whole[at : at + 100])

    def step_astral(self, value: str) -> None:
        for at in range(0, int(value), 50):
            self.chunk("\N{GRINNING FACE}" * min(50, int(value) - at))

    def step_delay(self, value: str) -> None:
        self._delay = float(value)

    def step_wait(self, value: str) -> None:
        self.pause(float(value))

    def step_until(self, value: str) -> None:
        while not Path(value).exists():
            self.pause(0.02)  # the file is another process's: there is no signal to wait for

    def step_hang(self, _value: str) -> None:
        self.pause(86400)

    def step_think(self, value: str) -> None:
        self.update("agent_thought_chunk", content={"type": "text", "text": value})

    def step_plan(self, value: str) -> None:
        entries = [
            {"content": entry, "priority": "medium", "status": "pending"}
            for entry in value.split("|")
        ]
        self.update("plan", entries=entries)

    def step_usage(self, value: str) -> None:
        used, _, size = value.partition(":")
        self.update("usage_update", used=int(used), size=int(size))

    def _tool(self, value: str, last: str | None) -> None:
        kind, title, seconds = kind_title_seconds(value)
        self._tools += 1
        tool_id = f"call-{len(self._session.history)}-{self._tools}"
        self.update("tool_call", toolCallId=tool_id, title=title, kind=kind, status="in_progress")
        self.pause(seconds)
        if last:
            self.update("tool_call_update", toolCallId=tool_id, status=last)

    def step_tool(self, value: str) -> None:
        self._tool(value, "completed")

    def step_toolfail(self, value: str) -> None:
        self._tool(value, "failed")

    def step_toolopen(self, value: str) -> None:
        self._tool(value, None)

    def step_permission(self, value: str) -> None:
        kind, title, _ = kind_title_seconds(value)
        self._tools += 1
        call = {"toolCallId": f"ask-{self._tools}", "title": title, "kind": kind}
        options = [
            {"optionId": f"id-{option}", "name": option.replace("_", " "), "kind": option}
            for option in ("allow_once", "allow_always", "reject_once")
        ]
        params = {"sessionId": self._session.id, "toolCall": call, "options": options}
        outcome = self._ask("session/request_permission", params).get("result", {}).get("outcome")
        self.pause(0)
        self.chunk(f"permission: {json.dumps(outcome)}")

    def _ask(self, method: str, params: Json) -> Json:
        waiting, answer = self._wire.ask(method, params)
        while not waiting.wait(0.02):
            if "cancel-needs-answer" not in self._modes:
                self.pause(0)
        return answer

    def step_recall(self, _value: str) -> None:
        earlier = self._session.prompts()[:-1]
        lines = [f"{n}. {text}" for n, text in enumerate(earlier, 1)]
        self.chunk("\n".join([f"I remember {len(earlier)} prompts.", *lines]))

    def step_stderr(self, value: str) -> None:
        sys.stderr.write(value + "\n")
        sys.stderr.flush()

    def step_line(self, value: str) -> None:
        self.chunk("x" * int(value))

    def step_loud(self, value: str) -> None:
        self.step_stderr(("\x1b[31mloud\x00 " * (int(value) // 11 + 1))[: int(value)])

    def step_child(self, _value: str) -> None:
        child = subprocess.Popen(  # it must outlive us: the host has to find it
            ["sleep", "600"], start_new_session=True, stdin=subprocess.DEVNULL
        )
        self.chunk(f"child {child.pid} ")

    def step_fail(self, value: str) -> None:
        code, _, message = value.partition(":")
        raise Failed(int(code), message)

    def step_stop(self, value: str) -> None:
        self.stop_reason = value

    def step_exit(self, value: str) -> None:
        self.step_stderr(f"scripted exit {value}")
        self._wire.record("exit", value)
        os._exit(int(value or 0))

    def step_crash(self, _value: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def misbehave(self) -> None:
        """What the modes want to happen before the steps of a turn."""
        for mode, act in self._acts():
            if mode in self._modes:
                act()

    def _acts(self) -> Iterator[tuple[str, Any]]:
        yield "noise", self._noise
        yield "unknown-updates", self._unknown_updates
        yield "unknown-requests", self._unknown_requests
        yield "big-line", lambda: self.step_line("20_000_000")
        yield "loud-stderr", lambda: self.step_loud("1_100_000")
        yield "setsid-child", lambda: self.step_child("")
        yield "silent-retry", lambda: self.pause(86400)
        yield "half-line", self._half_line

    def _noise(self) -> None:
        for line in (
            b"Welcome!",
            b"\xff\xfe\x00 bytes",
            b"null",
            b"42",
            b'"text"',
            b"[1, 2]",
            b"{",
            b"",
        ):
            self._wire.raw(line + b"\n")

    def _half_line(self) -> None:
        self.chunk("half ")
        self._wire.raw(b'{"jsonrpc": "2.0", "method": "session/upd')
        os._exit(1)

    def _unknown_updates(self) -> None:
        self.update("notice", text="something new")
        self.update("agent_message_chunk", content={"type": "hologram", "data": [1]})
        self.update("tool_call", toolCallId="odd", kind="teleport", status="floating", title=7)
        self.update("tool_call_update", toolCallId=None)
        self.update("plan", entries=[{"content": "real"}, None, {"content": ["odd"]}, "text"])
        self._wire.send(method="session/update", params=[1])
        self._wire.send(method="session/update", params={"sessionId": self._session.id})
        self._wire.send(method="$/cancel_request", params={"requestId": 1})
        self._wire.send(method="_vendor/news", params={"a": 1})

    def _unknown_requests(self) -> None:
        for method in ("terminal/create", "fs/read_text_file", "_vendor/ask", "made/up"):
            code = self._ask(method, {"sessionId": self._session.id}).get("error", {}).get("code")
            self.chunk(f"{method} {code} ")


def numbered(what: str, count: int) -> tuple[str, list[Json]]:
    """So many values of an option, each with a long description."""
    about = "a description of one hundred and forty characters ".ljust(140, ".")
    values = [
        {"value": f"{what}-{n}", "name": f"{what.title()} {n}", "description": about}
        for n in range(1, count + 1)
    ]
    return what, values


def option(session: Session, described: tuple[str, list[Json]]) -> Json:
    """One config option, with what was chosen of it or else its first value."""
    name, values = described
    current = session.chosen.get(name, values[0]["value"])
    about: Json = {"id": name, "name": name.title(), "type": "select", "category": name}
    return {**about, "currentValue": current, "options": values}


def older_options(session: Session) -> Json:
    """The same in the form that came before config options."""
    models = [{"modelId": value, "name": value.title()} for value in ("fast", "smart")]
    modes = [{"id": value, "name": value.title()} for value in ("fast", "smart")]
    return {
        "models": {
            "currentModelId": session.chosen.get("model", "fast"),
            "availableModels": models,
        },
        "modes": {"currentModeId": session.chosen.get("mode", "fast"), "availableModes": modes},
    }


class Agent:
    """Answers the client's requests."""

    def __init__(self, options: argparse.Namespace, out: BinaryIO) -> None:
        self._options = options
        self._modes = frozenset(options.mode)
        self._folder: Path | None = options.state_dir
        if self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)
        self._wire = Wire(out, options.log, self._modes)
        self._sessions: dict[str, Session] = {}
        self._poisoned = False

    def serve(self, lines: BinaryIO) -> None:
        """Take messages until stdin closes."""
        self._start()
        for line in lines:
            message = json.loads(line)
            self._wire.record("in", message)
            if "silent" not in self._modes:
                self._receive(message)
            if "deaf" in self._modes and message.get("method") == "session/prompt":
                threading.Event().wait()
        self._wire.record("eof", None)
        if "stay-on-eof" in self._modes:
            threading.Event().wait()

    def _start(self) -> None:
        self._wire.record("start", sys.argv[1:])
        if "ignore-sigterm" in self._modes:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if "loud-stderr" in self._modes:
            sys.stderr.write("loud " * 200_000)
        if "not-acp" in self._modes:
            self._wire.raw(b"Welcome to the wrong program. Usage: wrong [FILE]\n")
            sys.exit(64)

    def _receive(self, message: Json) -> None:
        method = message.get("method")
        if method is None:
            self._wire.answered(message)
        elif method == "session/cancel":
            self._cancel(message["params"])
        elif method == "session/prompt":
            self._prompt(message["id"], message["params"])
        elif "id" in message:
            self._request(message["id"], method, message.get("params") or {})

    def _request(self, request_id: Any, method: str, params: Json) -> None:
        serve = getattr(self, "on_" + method.replace("/", "_"), self._unknown)
        try:
            result = serve(request_id, params)
        except Failed as failed:
            self._wire.answer(request_id, error={"code": failed.code, "message": str(failed)})
            return
        if result is not None:
            self._wire.answer(request_id, result=result)

    def _unknown(self, _id: Any, _params: Json) -> Json:
        raise Failed(-32601, "Method not found")

    def on_initialize(self, _id: Any, params: Json) -> Json:
        if not params.get("clientCapabilities"):
            raise Failed(-32602, "clientCapabilities must be a JSON object")
        durable = self._folder is not None
        can: Json = {"close": {}}
        if durable and "no-resume" not in self._modes:
            can["resume"] = {}
        return {
            "protocolVersion": 99 if "version-99" in self._modes else 1,
            "agentInfo": {"name": self._options.name, "version": "1.0"},
            "agentCapabilities": {
                "loadSession": durable and "no-load" not in self._modes,
                "sessionCapabilities": can,
            },
            "authMethods": [{"id": "login", "name": "Log in with Example"}]
            if "auth" in self._modes
            else [],
        }

    def on_session_new(self, _id: Any, _params: Json) -> Json | None:
        if "silent-new" in self._modes:
            return None
        if "auth" in self._modes:
            raise Failed(-32000, "Authentication required")
        session = self._session(f"s-{uuid.uuid4()}")
        session.create()
        if "early-update" in self._modes:
            self._player(session).update("available_commands_update", availableCommands=[])
            self._player(session).chunk("too early ")
        return {"sessionId": session.id, **self._config_options(session)}

    def on_session_load(self, request_id: Any, params: Json) -> Json | None:
        session = self._restore(params)
        if session is None:
            return None
        if "reply-before-replay" in self._modes:
            self._wire.answer(request_id, result=self._config_options(session))
            threading.Timer(0.3, self._replay, [session]).start()
            return None
        self._replay(session)
        self._player(session).update("available_commands_update", availableCommands=[])
        return self._config_options(session)

    def on_session_resume(self, _id: Any, params: Json) -> Json | None:
        if "resume-refused" in self._modes:
            raise Failed(-32601, "Method not found: session/resume")
        session = self._restore(params)
        if session and "replay-on-resume" in self._modes:
            self._replay(session)
        return self._config_options(session) if session else None

    def on_session_close(self, _id: Any, params: Json) -> Json:
        self._cancel(params)
        return {}

    def on_session_set_config_option(self, _id: Any, params: Json) -> Json:
        session = self._session(str(params["sessionId"]))
        known = {one["id"]: one for one in self._config_options(session).get("configOptions", [])}
        offered = known.get(params.get("configId"), {}).get("options", [])
        if params.get("value") not in [one["value"] for one in offered]:
            raise Failed(-32602, f"no such value: {params.get('value')}")
        session.chosen[params["configId"]] = params["value"]
        return self._config_options(session)

    def on_session_set_model(self, _id: Any, params: Json) -> Json:
        return self._choose(params, "model", str(params.get("modelId")))

    def on_session_set_mode(self, _id: Any, params: Json) -> Json:
        return self._choose(params, "mode", str(params.get("modeId")))

    def _choose(self, params: Json, what: str, value: str) -> Json:
        if "older-options" not in self._modes:
            raise Failed(-32601, "Method not found")
        if value not in {"fast", "smart"}:
            raise Failed(-32602, f"no such {what}: {value}")
        self._session(str(params["sessionId"])).chosen[what] = value
        return {}

    def _config_options(self, session: Session) -> Json:
        if "older-options" in self._modes:
            return older_options(session)
        if "many-options" in self._modes:
            models, agents = numbered("model", 30), numbered("agent", 26)
            return {"configOptions": [option(session, models), option(session, agents)]}
        if "config-options" in self._modes:
            values = [{"value": value, "name": value} for value in ("fast", "smart")]
            return {"configOptions": [option(session, ("model", values))]}
        return {}

    def _restore(self, params: Json) -> Session | None:
        if "silent-load" in self._modes:
            return None
        if "load-broken" in self._modes:
            raise Failed(-32603, "the model's server cannot be reached")
        session_id = str(params["sessionId"])
        known = self._folder and (self._folder / f"{session_id}.jsonl").exists()
        if not known and "accept-any-id" not in self._modes:
            raise Failed(self._options.unknown_id_code, f"Session not found: {session_id}")
        return self._session(session_id)

    def _replay(self, session: Session) -> None:
        player = self._player(session)
        for entry in session.history:
            kind = "user_message_chunk" if entry["who"] == "user" else "agent_message_chunk"
            player.update(kind, content={"type": "text", "text": entry["text"]})

    def _session(self, session_id: str) -> Session:
        if session_id not in self._sessions:
            self._sessions[session_id] = Session(session_id, self._folder)
        return self._sessions[session_id]

    def _player(self, session: Session) -> Player:
        return Player(self._wire, session, self._modes, self._options.delay)

    def script(self, text: str, before: str = "") -> str:
        """The steps for a text: its own, or those of the first play whose phrase it holds.

        A play with a third part is only for a prompt that holds that in the blocks before the text.
        """
        if self._options.plays is None:
            return text
        plays = json.loads(self._options.plays.read_text(encoding="utf-8"))
        fitting = (
            steps
            for phrase, steps, *told in plays
            if phrase in text and all(one in before for one in told)
        )
        return next(fitting, text)

    def _cancel(self, params: Json) -> None:
        session = self._sessions.get(str(params.get("sessionId")))
        if session and session.running and "deaf-to-cancel" not in self._modes:
            session.cancelled.set()
        if session and not session.running and "cancel-poison" in self._modes:
            self._poisoned = True

    def _prompt(self, request_id: Any, params: Json) -> None:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is None or session.running or self._poisoned:
            error = {"code": -32603, "message": "this session takes no prompt now"}
            self._wire.answer(request_id, error=error)
            return
        texts = [block["text"] for block in params["prompt"] if block.get("type") == "text"]
        session.cancelled.clear()
        session.running = True
        session.remember("user", texts[-1] if texts else "")
        name = f"prompt {request_id}"
        threading.Thread(
            target=self._play,
            args=[request_id, session, "\n".join(texts[:-1])],
            name=name,
            daemon=True,
        ).start()

    def _play(self, request_id: Any, session: Session, before: str) -> None:
        player = self._player(session)
        outcome: Json
        try:
            player.misbehave()
            player.play(self.script(session.prompts()[-1], before))
            stop = "because" if "unknown-stop" in self._modes else player.stop_reason
            outcome = {"result": {"stopReason": stop}}
        except Cancelled:
            outcome = {"result": {"stopReason": "cancelled"}}
            if "cancel-breaks" in self._modes:
                self._poisoned = True
                outcome = {"error": {"code": -32603, "message": "Internal error"}}
        except Failed as failed:
            outcome = {"error": {"code": failed.code, "message": str(failed)}}
        session.remember("agent", player.text)
        session.running = False
        self._wire.answer(request_id, **outcome)
        if "late-update" in self._modes:
            session.cancelled.clear()
            player.chunk(" and one more thing")


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="A scripted ACP agent for tests and demos.")
    parser.add_argument(
        "--mode", action="append", default=[], choices=sorted(MODES), metavar="MODE"
    )
    parser.add_argument("--state-dir", type=Path, help="folder that makes sessions survive")
    parser.add_argument(
        "--plays",
        type=Path,
        help="JSON list of [phrase, steps] (and what must stand before): played without being said",
    )
    parser.add_argument("--log", type=Path, help="file that gets everything received and sent")
    parser.add_argument("--name", default="scripted-agent", help="the agent's own name")
    parser.add_argument("--delay", type=float, default=0.03, help="seconds before each chunk")
    parser.add_argument("--unknown-id-code", type=int, default=-32002)
    return parser.parse_args(arguments)


def main() -> None:
    """Serve the client on stdin and stdout."""
    sys.stdout.flush()
    Agent(options(), sys.stdout.buffer).serve(sys.stdin.buffer)


if __name__ == "__main__":
    main()
