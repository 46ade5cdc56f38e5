"""What a 429 says, and that it is kept."""

from openab.channels.discord.embargo import EVERYTHING, UNTOLD_SECONDS, Embargo, told


def test_a_held_route_is_held_until_its_end() -> None:
    embargo = Embargo()
    embargo.hold("POST a", 105.0)

    assert embargo.remaining("POST a", 100.0) == 5.0
    assert embargo.remaining("POST b", 100.0) == 0
    assert embargo.remaining("POST a", 105.0) == 0


def test_a_shorter_hold_does_not_end_a_longer_one() -> None:
    embargo = Embargo()
    embargo.hold("POST a", 300.0)
    embargo.hold("POST a", 101.0)

    assert embargo.remaining("POST a", 100.0) == 200.0


def test_a_global_limit_holds_every_route() -> None:
    embargo = Embargo()
    embargo.hold(EVERYTHING, 103.0)

    assert embargo.remaining("POST a", 100.0) == 3.0


def test_a_bucket_limit_is_for_its_route() -> None:
    assert told({"Via": "1.1 google"}, {"retry_after": 0.5, "global": False}) == (0.5, False)


def test_a_global_limit_says_so() -> None:
    assert told({"Via": "1.1 google"}, {"retry_after": 2, "global": True}) == (2.0, True)


def test_without_via_it_is_for_the_whole_address() -> None:
    assert told({"Retry-After": "30"}, {}) == (30.0, True)


def test_an_untold_time_has_a_default() -> None:
    assert told({"Retry-After": "soon"}, {"retry_after": None}) == (UNTOLD_SECONDS, True)
