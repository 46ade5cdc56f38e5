"""The SDK is loaded without its schema, and nobody else gets half a package for it."""

import subprocess
import sys

_BROKER_STARTS = "import sys; import openab.app.broker; "


def _prints(program: str) -> str:
    told = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    return told.stdout.strip()


def test_the_schema_is_not_loaded() -> None:
    loaded = "print(*[name for name in sys.modules if name.startswith('acp')])"
    names = _prints(_BROKER_STARTS + loaded).split()
    assert "acp.connection" in names
    assert "acp.schema" not in names


def test_the_whole_package_can_still_be_imported() -> None:
    assert (
        _prints(
            "import openab.agents.acp.sdk as ours; import acp; "
            "print(acp.Client.__name__, acp.RequestError is ours.RequestError)"
        )
        == "Client True"
    )


def test_a_package_that_was_imported_whole_stays_so() -> None:
    assert (
        _prints(
            "import acp; import openab.agents.acp.sdk as ours; import sys; "
            "print(sys.modules['acp'] is acp, acp.RequestError is ours.RequestError)"
        )
        == "True True"
    )
