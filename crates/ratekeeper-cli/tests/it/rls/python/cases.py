"""The cases of the Go service's own tests, by their numbers in the contract.

Windows that are counted in are a year long: none ends while this runs. Where a unit is told as the Go service tells it,
one request is enough.
"""

from rls import expect, until_end

CASES = {}


def case(number, group="plain"):
    def register(function):
        CASES.setdefault(group, []).append((number, function))
        return function

    return register


def asked(service, domain, rows, **more):
    """One descriptor each, one status each."""
    for text, told in rows:
        overall = "OVER" if told.startswith("OVER") else "OK"
        expect(service.ask(domain, text, **more), overall, told)


def counted(service, key, **kinds):
    """What statistics say of a rule."""
    stats = service.stats()
    for kind, value in kinds.items():
        name = f"ratelimit.service.rate_limit.{key}.{kind}"
        assert stats.get(name, 0) == value, f"{name}: {stats.get(name)}, not {value}"


@case(1)
def unknown_domain(service):
    before = service.stat("foo_domain", "domain_not_found")
    asked(service, "foo_domain", [("(key1=value1)", "-")])
    assert service.stat("foo_domain", "domain_not_found") == before + 1
    expect(service.ask("test-domain", ""), "OK", "-")


@case(2)
def no_rule_at_the_last_entry(service):
    for text in [
        "(key1=something)",
        "(key1=value1)",
        "(key2=value2)(subkey=subvalue)",
        "(key5=value5)(subkey5=subvalue)",
    ]:
        expect(service.ask("test-domain", text), "OK", "-")


@case(3)
def exact_before_bare(service):
    asked(service, "test-domain", [
        ("(key1=value1)(subkey1=something3)", "OK 4 of 5 SECOND"),
        ("(key1=value1)(subkey1=subvalue1)", "OK 9 of 10 SECOND"),
    ])
    counted(service, "test-domain.key1_value1.subkey1", total_hits=1, within_limit=1)
    counted(service, "test-domain.key1_value1.subkey1_subvalue1", total_hits=1)


@case(4)
def a_value_without_a_limit(service):
    asked(service, "test-domain", [
        ("(key2=something)", "OK 19 of 20 MINUTE"),
        ("(key2=value2)", "OK 29 of 30 MINUTE"),
        ("(key2=value3)", "-"),
    ])
    counted(service, "test-domain.key2", total_hits=1)


@case(5)
def units_and_names(service):
    asked(service, "test-domain", [
        ("(key3=foo)", "OK 0 of 1 HOUR"),
        ("(key4=foo)", "OK 0 of 1 DAY key4_rate_limit"),
        ("(key6=foo)", "unlimited"),
    ])


@case(6)
def detailed_metrics(service):
    for value in ["unspecified_value", "another_value"]:
        asked(service, "test-domain", [(f"(key7={value})", "OK 69 of 70 MINUTE")])
        counted(service, f"test-domain.key7_{value}", total_hits=1)


@case(7)
def limits_that_the_request_brings(service):
    day, hour = 4, 3
    asked(service, "nowhere", [("(key1=value1)", "-")], limit=(10, day))
    text = "(key1=value1)(subkey1=something)"
    asked(service, "test-domain", [(text, "OK 9 of 10 DAY")], limit=(10, day))
    asked(service, "test-domain", [(text, "OK 41 of 42 HOUR")], limit=(42, hour))
    counted(service, "test-domain.key1_value1.subkey1_something", total_hits=2)


@case(8, "merged")
def two_files_of_one_domain(service):
    asked(service, "merged", [
        ("(key1=value1)", "OK 9 of 10 MINUTE"),
        ("(key2=value2)", "OK 19 of 20 MINUTE"),
    ])


@case(9)
def patterns(service):
    for text in ["(noVal=foo1)", "(noVal=foo2)", "(wild=foo1)", "(wild=foo2)"]:
        asked(service, "wild", [(text, "OK 19 of 20 MINUTE")])
    asked(service, "wild", [("(wild=bar)", "-"), ("(noWild=foo1)", "-")])
    counted(service, "wild.noVal", total_hits=2)
    counted(service, "wild.wild_foo*", total_hits=2)


@case(10)
def nested_patterns(service):
    asked(service, "wild", [("(nestedWild=val1)(wild=goo2)", "OK 19 of 20 MINUTE")])
    counted(service, "wild.nestedWild_val1.wild_goo*", total_hits=1)


@case(11)
def stars_in_the_middle(service):
    asked(service, "wild", [(f"(midWild={value})", "OK 19 of 20 MINUTE") for value in ["barab", "bar123b", "barb"]])
    asked(service, "wild", [(f"(midWild={value})", "-") for value in ["bara", "xbarb"]])
    asked(service, "wild", [(f"(multiWild={value})", "OK 9 of 10 MINUTE") for value in ["foo123bar456baz", "foobarbaz"]])
    asked(service, "wild", [(f"(multiWild={value})", "-") for value in ["foo123baz", "bar456baz"]])


@case(12)
def shared_counters(service):
    asked(service, "shared", [
        ("(files=files/a.pdf)", "OK 99 of 100 YEAR"),
        ("(files=files/b.csv)", "OK 98 of 100 YEAR"),
        ("(route=api/v1)(method=GET)", "OK 59 of 60 YEAR"),
        ("(service=svc/user)(endpoint=get)", "OK 79 of 80 YEAR"),
        ("(nested=parent)(files=nested/x)", "OK 199 of 200 YEAR"),
    ])
    counted(service, "shared.files_files/*", total_hits=2)
    counted(service, "shared.route_api/*.method", total_hits=1)
    counted(service, "shared.service_svc/*.endpoint_get", total_hits=1)


@case(13)
def shared_at_each_level(service):
    asked(service, "shared", [
        ("(files=top/x)(files=nested/y)", "OK 299 of 300 YEAR"),
        ("(files=top/z)(files=nested/w)", "OK 298 of 300 YEAR"),
        ("(path=path/foo)(file=file/doc1)(type=pdf)", "OK 119 of 120 YEAR"),
        ("(path=path/bar)(file=file/doc1)(type=pdf)", "OK 118 of 120 YEAR"),
        ("(path=path/foo)(file=file/doc2)(type=pdf)", "OK 119 of 120 YEAR"),
        ("(tenant=t1prod)(resource=resAv2)", "OK 59 of 60 YEAR"),
        ("(tenant=t99prod)(resource=resBBBv2)", "OK 58 of 60 YEAR"),
    ])
    counted(service, "shared.path_path/*.file_file/*.type", total_hits=3)


@case(14)
def exact_before_shared(service):
    asked(service, "shared", [
        ("(file=test1)", "OK 49 of 50 YEAR"),
        ("(file=test2)", "OK 99 of 100 YEAR"),
        ("(file=test23)", "OK 98 of 100 YEAR"),
        ("(file=test1)", "OK 48 of 50 YEAR"),
        ("(midpath=/api-beta-v1)", "OK 99 of 100 YEAR"),
        ("(midpath=/api/v2)", "-"),
        ("(multiroute=svcABCrpc)", "-"),
    ])


@case(15)
def values_in_metrics(service):
    for text, key in [
        ("(alone=foo1)", "named.alone_foo1"),
        ("(together=foo1)", "named.together_foo*"),
        ("(wild=foo1)(other=bar)(limit=X)", "named.wild_foo*.other_bar.limit"),
        ("(route=draw)(http_method=GET)(subject_id=7)", "named.route_draw.http_method_GET.subject_id"),
        ("(route=draw)(http_method=)(subject_id=7)", "named.route_draw.http_method.subject_id"),
    ]:
        asked(service, "named", [(text, "OK 19 of 20 YEAR")])
        counted(service, key, total_hits=1)


@case(16)
def a_second(service):
    told = service.ask("basic", "(key1=foo)")
    expect(told, "OK", "OK 49 of 50 SECOND")
    assert told.answer.statuses[0].duration_until_reset.seconds == 1


@case(17)
def over_and_over(service):
    before = [service.stat("another.key2", kind) for kind in ("total_hits", "over_limit")]
    for left in range(19, -1, -1):
        asked(service, "another", [("(key2=r17)", f"OK {left} of 20 YEAR")])
    for _ in range(5):
        asked(service, "another", [("(key2=r17)", "OVER 0 of 20 YEAR")])
    after = [service.stat("another.key2", kind) for kind in ("total_hits", "over_limit")]
    assert [now - then for now, then in zip(after, before)] == [25, 5], (before, after)


@case(18)
def two_descriptors(service):
    for number in range(1, 16):
        second = f"OK {10 - number} of 10 YEAR" if number <= 10 else "OVER 0 of 10 YEAR"
        overall = "OK" if number <= 10 else "OVER"
        expect(service.ask("another", "(key2=r18)+(key3=r18)"), overall, f"OK {20 - number} of 20 YEAR", second)


@case(19, "ignore")
def two_descriptors_and_refusals_are_free(service):
    for number in range(1, 16):
        passed = min(number, 10)
        second = f"OK {10 - number} of 10 YEAR" if number <= 10 else "OVER 0 of 10 YEAR"
        overall = "OK" if number <= 10 else "OVER"
        expect(service.ask("another", "(key2=r)+(key3=r)"), overall, f"OK {20 - passed} of 20 YEAR", second)
    expect(service.ask("another", "(key2=r)", own=0), "OK", "OK 10 of 20 YEAR")


@case(20)
def what_is_left_of_a_window(service):
    for domain, text, unit in [
        ("another", "(key4=x)", "DAY"),
        ("test-domain", "(key3=never)", "HOUR"),
        ("modes", "(ten-a-month=x20)", "MONTH"),
        ("shared", "(files=files/20)", "YEAR"),
    ]:
        most = until_end(unit)
        seconds = service.ask(domain, text).answer.statuses[0].duration_until_reset.seconds
        least = until_end(unit)
        # A window that has ended in between makes the second look the larger one.
        assert least <= seconds <= most or least > most, f"{text}: {least} <= {seconds} <= {most}"


@case(21)
def with_and_without_a_threshold(service):
    domain = "share-threshold-test"
    for left in range(9, -1, -1):
        asked(service, domain, [("(files=files/a.pdf)", f"OK {left} of 10 YEAR")])
    asked(service, domain, [("(files=files/b.csv)", "OVER 0 of 10 YEAR")])
    for number in range(10):
        asked(service, domain, [(f"(files_no_share=files_no_share/{number})", "OK 9 of 10 YEAR")])


@case(22)
def hits_over_several_thresholds(service):
    rows = [
        ("twenty", 20, 2, 3, "OK 15", 0, 0, 3),
        ("twenty", 20, 16, 3, "OK 1", 0, 3, 3),
        ("twenty", 20, 19, 3, "OVER 0", 2, 1, 0),
        ("twenty", 20, 15, 7, "OVER 0", 2, 4, 0),
        ("eight", 8, 5, 2, "OK 1", 0, 1, 2),
        ("ten", 10, 27, 3, "OVER 0", 3, 0, 0),
        ("fifteen", 15, 10, 1, "OK 4", 0, 0, 1),
        ("fifteen", 15, 12, 1, "OK 2", 0, 1, 1),
        ("fifteen", 15, 15, 1, "OVER 0", 1, 0, 0),
    ]
    kinds = ["total_hits", "over_limit", "near_limit", "within_limit"]
    for key, limit, count, hits, told, over, near, within in rows:
        text = f"({key}=at-{count})"
        service.ask("modes", text, own=count)
        before = [service.stat(f"modes.{key}", kind) for kind in kinds]
        # Hits of the request count for descriptors that have none of their own.
        asked(service, "modes", [(text, f"{told} of {limit} YEAR")], hits=hits)
        after = [service.stat(f"modes.{key}", kind) for kind in kinds]
        counted = [now - then for now, then in zip(after, before)]
        assert counted == [hits, over, near, within], f"{text} + {hits}: {dict(zip(kinds, counted))}"


@case(23)
def looks_beyond_a_limit(service):
    service.ask("modes", "(ten=x23)", own=11)
    service.ask("modes", "(ten-a-month=x23)", own=11)
    before = [service.stat(f"modes.{key}", "total_hits") for key in ("ten", "ten-a-month")]
    expect(service.ask("modes", "(ten=x23)", own=0), "OVER", "OVER 0 of 10 YEAR")
    expect(service.ask("modes", "(ten-a-month=x23)"), "OVER", "OVER 0 of 10 MONTH")
    after = [service.stat(f"modes.{key}", "total_hits") for key in ("ten", "ten-a-month")]
    assert [now - then for now, then in zip(after, before)] == [0, 1], (before, after)


def plain_headers(service, names):
    limit, remaining, reset = names
    told = service.ask("modes", "(ten=h)+(twenty=h)")
    expect(told, "OK", "OK 9 of 10 YEAR", "OK 19 of 20 YEAR")
    assert told.headers[limit] == "10" and told.headers[remaining] == "9", told.headers
    service.ask("modes", "(ten=h)", own=9)
    told = service.ask("modes", "(ten=h)+(twenty=h)")
    expect(told, "OVER", "OVER 0 of 10 YEAR", "OK 18 of 20 YEAR")
    seconds = told.answer.statuses[0].duration_until_reset.seconds
    assert told.headers == {limit: "10", remaining: "0", reset: str(seconds)}, told.headers
    assert service.ask("modes", "(nothing=h)").headers == {}, "no limit, no headers"


@case(24, "headers")
def headers(service):
    plain_headers(service, ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"])


@case(24, "own-headers")
def headers_of_ones_own(service):
    plain_headers(service, ["X-Most", "X-Left", "X-Again"])


@case(25, "shadow")
def global_shadow(service):
    name = "ratelimit.service.global_shadow_mode"
    service.ask("modes", "(one=x25)")
    before = service.stats().get(name, 0)
    expect(service.ask("modes", "(one=x25)+(ten=x25)"), "OK", "OVER 0 of 1 YEAR", "OK 9 of 10 YEAR")
    expect(service.ask("modes", "(ten=x25)"), "OK", "OK 8 of 10 YEAR")
    assert service.stats()[name] == before + 1, "for each answer that was changed"


@case(25)
def a_rule_in_shadow_beside_another(service):
    service.ask("modes", "(shady=x25)+(one=x25)")
    expect(service.ask("modes", "(shady=x25)+(one=x25)"), "OVER", "OK 0 of 1 YEAR", "OVER 0 of 1 YEAR")


@case(26)
def quota_beside_regular(service):
    expect(service.ask("modes", "(one=x26)+(soft=x26)"), "OK", "OK 0 of 1 YEAR", "OK 0 of 1 YEAR")
    expect(service.ask("modes", "(one=x26)+(soft=y26)"), "OVER", "OVER 0 of 1 YEAR", "OK 0 of 1 YEAR")
    expect(service.ask("modes", "(one=y26)+(soft=x26)"), "OVER", "OK 0 of 1 YEAR", "OVER 0 of 1 YEAR")


@case(27)
def two_quota_rules(service):
    expect(service.ask("modes", "(soft=x27)"), "OK", "OK 0 of 1 YEAR")
    expect(service.ask("modes", "(soft=x27)+(soft2=x27)"), "OK", "OVER 0 of 1 YEAR", "OK 0 of 1 YEAR")
    expect(service.ask("modes", "(soft=x27)+(soft2=x27)"), "OVER", "OVER 0 of 1 YEAR", "OVER 0 of 1 YEAR")


@case(27, "shadow")
def two_quota_rules_in_global_shadow(service):
    service.ask("modes", "(soft=x27)+(soft2=x27)")
    expect(service.ask("modes", "(soft=x27)+(soft2=x27)"), "OK", "OVER 0 of 1 YEAR", "OVER 0 of 1 YEAR")


@case(28)
def limited_none_unlimited(service):
    told = service.ask("modes", "(ten=x28)+(nothing=x28)+(free=x28)")
    expect(told, "OK", "OK 9 of 10 YEAR", "-", "unlimited")


@case(29, "quota")
def metadata_of_those_that_pass(service):
    told = service.ask("modes", "(s1=x)+(s2=x)")
    assert told.metadata["metadata"] == {"name": "service_1"}, told.metadata
    told = service.ask("modes", "(s1=x)+(s2=x)")
    expect(told, "OK", "OK 3 of 5 YEAR", "OVER 0 of 1 YEAR")
    assert told.metadata["metadata"] == {"name": "service_1"}, told.metadata
    told = service.ask("modes", "(s2=x)+(s1=x)")
    assert told.metadata["metadata"] == {"name": "service_1"}, told.metadata
    told = service.ask("modes", "(s1=y)+(s3=y)")
    assert told.metadata["metadata"] == {"name": "service_1", "some_other_name": "service_3"}, told.metadata


@case(30)
def bans_and_what_replaces_them(service):
    ban = "OVER 0 of 0 YEAR banned_limit"
    expect(service.ask("rl", "(foo=f)(bar=banned)"), "OVER", ban)
    pair = "(foo=f)(bar=banned)+(source_cluster=proxy)(destination_cluster="
    expect(service.ask("rl", pair + "mock)"), "OVER", ban, "OK 0 of 1 YEAR")
    expect(service.ask("rl", pair + "override)"), "OK", "-", "OK 1 of 2 YEAR")
    expect(service.ask("rl", pair + "override)"), "OK", "-", "OK 0 of 2 YEAR")
    expect(service.ask("rl", pair + "override)"), "OVER", "-", "OVER 0 of 2 YEAR")


@case(31)
def replaced_by_a_larger_one(service):
    pair = "(foo=m)(bar=bkthomps)+(source_cluster=proxy)(destination_cluster="
    for overall, told in [("OK", "OK 1"), ("OK", "OK 0"), ("OVER", "OVER 0")]:
        expect(service.ask("rl", pair + "bkthomps)"), overall, "-", f"{told} of 2 YEAR")
    expect(service.ask("rl", pair + "not_bkthomps)"), "OK", "OK 0 of 1 YEAR bkthomps", "-")
    expect(service.ask("rl", pair + "not_bkthomps)"), "OVER", "OVER 0 of 1 YEAR bkthomps", "-")
    expect(service.ask("rl", pair + "bkthomps)"), "OVER", "-", "OVER 0 of 2 YEAR")


@case(32)
def replaces_several(service):
    three = "(foo=m32)(bar=bkthomps)+(source_cluster=proxy)(destination_cluster=fake)+(category=account)"
    for left in [3, 2, 1, 0]:
        expect(service.ask("rl", three), "OK", "-", "-", f"OK {left} of 4 YEAR")
    expect(service.ask("rl", three), "OVER", "-", "-", "OVER 0 of 4 YEAR")
    asked(service, "rl", [
        ("(foo=2)(bar=bkthomps)", "OK 0 of 1 YEAR bkthomps"),
        ("(foo=2)(bar=bkthomps)", "OVER 0 of 1 YEAR bkthomps"),
    ])
    pair = "(foo=3)(bar=3)+(source_cluster=proxy)(destination_cluster=fake)"
    expect(service.ask("rl", pair), "OK", "OK 2 of 3 YEAR", "OK 1 of 2 YEAR fake_name")
    expect(service.ask("rl", pair), "OK", "OK 1 of 3 YEAR", "OK 0 of 2 YEAR fake_name")
    expect(service.ask("rl", pair), "OVER", "OK 0 of 3 YEAR", "OVER 0 of 2 YEAR fake_name")


def quota_of(told):
    """The service that the metadata names."""
    metadata = (told.metadata or {}).get("metadata", {})
    return metadata.get("service_with_quota", {}).get("name")


@case(33)
def two_services(service):
    both = "(service=service_1)+(service=service_2)"
    told = [service.ask("rl", both) for _ in range(3)]
    assert [one.overall for one in told] == ["OK", "OK", "OVER"], told
    assert [quota_of(one) for one in told] == ["service_1", "service_2", None], [one.metadata for one in told]


@case(34)
def look_and_charge(service):
    rows = [(0, "OK 2"), (1, "OK 1"), (0, "OK 1"), (1, "OK 0"), (0, "OK 0"), (1, "OVER 0"), (0, "OVER 0")]
    for own, told in rows:
        asked(service, "rl34", [("(service=service_2)", f"{told} of 2 YEAR")], own=own)


@case(35)
def looks_at_two_services(service):
    looks = [service.ask("rl35", "(service=service_1)+(service=service_2)", own=0)]
    for name in ["service_1", "service_1", "service_2", "service_2", "service_2"]:
        service.ask("rl35", f"(service={name})")
        looks.append(service.ask("rl35", "(service=service_1)+(service=service_2)", own=0))
    assert [one.overall for one in looks] == ["OK"] * 5 + ["OVER"], looks
    named = ["service_1", "service_1", "service_2", "service_2", "service_2", None]
    assert [quota_of(one) for one in looks] == named, [one.metadata for one in looks]


@case(36)
def a_rule_in_shadow(service):
    for told in ["OK 2", "OK 1", "OK 0", "OK 0", "OK 0"]:
        asked(service, "rl", [("(foo=p)(baz=shady)", f"{told} of 3 YEAR")])
    for told in ["OK 2", "OK 1", "OK 0", "OVER 0"]:
        asked(service, "rl", [("(foo=p)(baz=not-so-shady)", f"{told} of 3 YEAR")])
    counted(service, "rl.foo.baz_shady", total_hits=5, over_limit=2, shadow_mode=2)
    counted(service, "rl.foo.baz_not-so-shady", total_hits=4, over_limit=1, shadow_mode=0)


@case(37)
def a_detailed_metric(service):
    for told in ["OK 1", "OK 0", "OVER 0"]:
        asked(service, "rl", [("(unspec=unspecified_value)", f"{told} of 2 YEAR")])
    counted(service, "rl.unspec_unspecified_value", over_limit=1)
