"""Rules that the Go service does not have."""

import datetime
import zoneinfo

from cases import asked, case
from rls import expect


@case("gcra", "better")
def gcra(service):
    for left in [3, 2, 1, 0]:
        asked(service, "better", [("(gcra=x)", f"OK {left} of 10 YEAR")])
    for _ in range(3):
        told = service.ask("better", "(gcra=x)")
        expect(told, "OVER", "OVER 0 of 10 YEAR")
        # Ten a year: one is back after a tenth of it. A refusal does not put it off.
        seconds = told.answer.statuses[0].duration_until_reset.seconds
        assert 3_153_600 - 3_600 <= seconds <= 3_153_600, seconds
    # A look asks whether one hit would pass now.
    asked(service, "better", [("(gcra=x)", "OVER 0 of 10 YEAR"), ("(gcra=y)", "OK 4 of 10 YEAR")], own=0)
    asked(service, "better", [("(gcra=x)", "OK 1 of 10 YEAR")], own=1, gives_back=True)
    # More than can ever pass at once: told so, and charged nothing.
    asked(service, "better", [("(gcra=z)", "OVER 0 of 10 YEAR")], own=5)
    asked(service, "better", [("(gcra=z)", "OK 0 of 10 YEAR")], own=4)


@case("windows of several units", "better")
def windows_of_several_units(service):
    asked(service, "better", [("(many=x)", f"{told} of 3 UNKNOWN") for told in ["OK 2", "OK 1", "OK 0", "OVER 0"]])


@case("several rules", "better")
def several_rules_of_one_key(service):
    asked(service, "better", [("(two=x)", f"{told} of 3 DAY") for told in ["OK 2", "OK 1", "OK 0", "OVER 0"]])


@case("log", "better")
def log(service):
    asked(service, "better", [("(log=x)", f"{told} of 2 YEAR") for told in ["OK 1", "OK 0", "OVER 0", "OVER 0"]])


@case("calendar", "better")
def a_month_of_the_calendar(service):
    told = service.ask("better", "(berlin=x)")
    expect(told, "OK", "OK 4 of 5 MONTH")
    try:
        zone = zoneinfo.ZoneInfo("Europe/Berlin")
    except zoneinfo.ZoneInfoNotFoundError:
        print("calendar: not compared; this machine has no time zones")
        return
    now = datetime.datetime.now(zone)
    year, month = divmod(now.year * 12 + now.month, 12)
    end = datetime.datetime(year, month + 1, 1, tzinfo=zone).timestamp() - now.timestamp()
    seconds = told.answer.statuses[0].duration_until_reset.seconds
    assert end - 1 <= seconds <= end + 60, (seconds, end)


@case("over: ignore", "better")
def refusals_are_free(service):
    asked(service, "better", [("(stop=x)", f"{told} of 2 YEAR") for told in ["OK 1", "OK 0", "OVER 0", "OVER 0"]])
    asked(service, "better", [("(stop=x)", "OVER 0 of 2 YEAR")], own=0)
    asked(service, "better", [("(stop=x)", "OK 1 of 2 YEAR")], own=1, gives_back=True)
    # One large request does not burn the rest.
    asked(service, "better", [("(stop=large)", "OVER 0 of 2 YEAR")], own=3)
    asked(service, "better", [("(stop=large)", "OK 0 of 2 YEAR")], own=2)


@case("over: ignore beside count", "better")
def what_counts_is_charged_all_the_same(service):
    service.ask("better", "(stop=b)", own=2)
    expect(service.ask("better", "(beside=b)+(stop=b)"), "OVER", "OK 9 of 10 YEAR", "OVER 0 of 2 YEAR")
    expect(service.ask("better", "(beside=b)+(stop=b)"), "OVER", "OK 8 of 10 YEAR", "OVER 0 of 2 YEAR")
    # And what ignores is not charged when another one refuses.
    service.ask("better", "(beside=c)", own=10)
    expect(service.ask("better", "(stop=c)+(beside=c)"), "OVER", "OK 2 of 2 YEAR", "OVER 0 of 10 YEAR")
    expect(service.ask("better", "(stop=c)+(gcra=c)"), "OK", "OK 1 of 2 YEAR", "OK 3 of 10 YEAR")


@case("over: count", "better")
def debts(service):
    asked(service, "better", [("(debt=x)", "OK 1 of 2 YEAR"), ("(debt=x)", "OK 0 of 2 YEAR")])
    once = service.ask("better", "(debt=x)")
    expect(once, "OVER", "OVER 0 of 2 YEAR")
    twice = service.ask("better", "(debt=x)")
    expect(twice, "OVER", "OVER 0 of 2 YEAR")
    first, second = (told.answer.statuses[0].duration_until_reset.seconds for told in (once, twice))
    assert second > first, "what is owed puts it off"
