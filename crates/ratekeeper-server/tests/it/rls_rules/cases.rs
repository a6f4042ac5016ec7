//! Cases 1 to 15: which rule a descriptor finds, how it is counted and under which name.

use ratekeeper_server::rls::{Found, RlsSettings, StatName, write_override_stat};

use crate::rls_rules::fixtures::{BASIC, SHARED, WILDCARDS};
use crate::rls_rules::support::{counter, entries, find, parse, parse_all, told};

const NONE: &str = "–";

#[test]
fn exact_values_bare_keys_and_depth() {
    let config = parse(BASIC);
    let table = [
        // 1: no entries.
        ("", NONE),
        // 2: nothing at this value, not deep enough, too deep, nothing at that depth.
        ("(key1=something)", NONE),
        ("(key1=value1)", NONE),
        ("(key2=value2)(subkey=subvalue)", NONE),
        ("(key5=value5)(subkey5=subvalue)", NONE),
        // 3
        ("(key1=value1)(subkey1=something)", "5 SECOND test-domain.key1_value1.subkey1"),
        ("(key1=value1)(subkey1=subvalue1)", "10 SECOND test-domain.key1_value1.subkey1_subvalue1"),
        // 4
        ("(key2=something)", "20 MINUTE test-domain.key2"),
        ("(key2=value2)", "30 MINUTE test-domain.key2_value2"),
        ("(key2=value3)", NONE),
        // 5
        ("(key3=foo)", "1 HOUR test-domain.key3"),
        ("(key4=foo)", "1 DAY test-domain.key4"),
        ("(key6=foo)", "unlimited test-domain.key6"),
        // 6
        ("(key7=unspecified_value)", "70 MINUTE test-domain.key7_unspecified_value"),
        ("(key7=another_value)", "70 MINUTE test-domain.key7_another_value"),
        // Both depths of one node.
        ("(key5=value5)", "15 DAY test-domain.key5_value5"),
        ("(key5=value5)(subkey5=subvalue5)", "25 DAY test-domain.key5_value5.subkey5_subvalue5"),
        // Case matters, and a key is no prefix.
        ("(KEY2=value2)", NONE),
        ("(key2=VALUE2)", "20 MINUTE test-domain.key2"),
        ("(key=foo)", NONE),
    ];
    for (asked, expected) in table {
        assert_eq!(told(&config, "test-domain", asked), expected, "{asked}");
    }
    assert!(matches!(config.find("foo_domain", &entries("(key2=value2)")), Found::NoDomain), "case 1");
    assert_eq!(find(&config, "test-domain", "(key3=foo)").unwrap().rule.name, "");
    assert_eq!(find(&config, "test-domain", "(key4=foo)").unwrap().rule.name, "key4_rate_limit");
}

#[test]
fn case_7_a_limit_that_is_brought_is_counted_by_every_value() {
    let mut name = StatName::new();
    write_override_stat(&mut name, "test-domain", &entries("(key1=value1)(subkey1=something)(empty=)"));
    assert_eq!(name.as_str(), "test-domain.key1_value1.subkey1_something.empty");
}

#[test]
fn case_8_domains_are_merged_if_that_is_asked_for() {
    let file = |key: u32| {
        format!(
            "domain: test-domain\ndescriptors:\n  - {{key: key{key}, value: value{key}, rate_limit: {{unit: minute, requests_per_unit: {key}0}}}}\n"
        )
    };
    let (one, two) = (file(1), file(2));
    let merging = RlsSettings { merges_domains: true, ..RlsSettings::default() };
    let config = parse_all(&[&one, &two], &merging).unwrap();
    assert_eq!(told(&config, "test-domain", "(key1=value1)"), "10 MINUTE test-domain.key1_value1");
    assert_eq!(told(&config, "test-domain", "(key2=value2)"), "20 MINUTE test-domain.key2_value2");
    let twice = parse_all(&[&one, &one], &merging).unwrap_err();
    assert_eq!(twice, ["b.yaml:3: duplicate descriptor composite key 'test-domain.key1_value1'"]);
    let apart = parse_all(&[&one, &two], &RlsSettings::default()).unwrap_err();
    assert_eq!(apart, ["b.yaml:1: duplicate domain 'test-domain' in config file"]);
}

#[test]
fn patterns() {
    let config = parse(WILDCARDS);
    let table = [
        // 9
        ("(noVal=foo1)", "20 MINUTE d.noVal"),
        ("(noVal=foo2)", "20 MINUTE d.noVal"),
        ("(wild=foo1)", "20 MINUTE d.wild_foo*"),
        ("(wild=foo2)", "20 MINUTE d.wild_foo*"),
        ("(wild=bar)", NONE),
        ("(noWild=foo1)", NONE),
        // 10
        ("(nestedWild=val1)(wild=goo2)", "20 MINUTE d.nestedWild_val1.wild_goo*"),
        // 11
        ("(midWild=barab)", "20 MINUTE d.midWild_bar*b"),
        ("(midWild=bar123b)", "20 MINUTE d.midWild_bar*b"),
        ("(midWild=barb)", "20 MINUTE d.midWild_bar*b"),
        ("(midWild=bara)", NONE),
        ("(midWild=xbarb)", NONE),
        ("(multiWild=foo123bar456baz)", "10 MINUTE d.multiWild_foo*bar*baz"),
        ("(multiWild=foobarbaz)", "10 MINUTE d.multiWild_foo*bar*baz"),
        ("(multiWild=foo123baz)", NONE),
        ("(multiWild=bar456baz)", NONE),
    ];
    for (asked, expected) in table {
        assert_eq!(told(&config, "d", asked), expected, "{asked}");
    }
    assert_ne!(counter(&config, "d", "(wild=foo1)"), counter(&config, "d", "(wild=foo2)"));
}

#[test]
fn patterns_that_share_a_counter() {
    let config = parse(SHARED);
    let table = [
        // 12
        ("(files=files/a.pdf)", "100 MINUTE test-domain.files_files/*", "test-domain|files=files/*"),
        ("(files=files/b.csv)", "100 MINUTE test-domain.files_files/*", "test-domain|files=files/*"),
        (
            "(route=api/v1)(method=GET)",
            "60 MINUTE test-domain.route_api/*.method",
            "test-domain|route=api/*|method=GET",
        ),
        (
            "(service=svc/user)(endpoint=get)",
            "80 MINUTE test-domain.service_svc/*.endpoint_get",
            "test-domain|service=svc/*|endpoint=get",
        ),
        // 13
        (
            "(files=top/x)(files=nested/y)",
            "300 MINUTE test-domain.files_top/*.files_nested/*",
            "test-domain|files=top/*|files=nested/*",
        ),
        (
            "(path=path/foo)(file=file/doc1)(type=pdf)",
            "120 MINUTE test-domain.path_path/*.file_file/*.type",
            "test-domain|path=path/*|file=file/doc1|type=pdf",
        ),
        (
            "(tenant=t1prod)(resource=resAv2)",
            "60 MINUTE test-domain.tenant_t*prod.resource_res*v2",
            "test-domain|tenant=t*prod|resource=res*v2",
        ),
        (
            "(tenant=t99prod)(resource=resBBBv2)",
            "60 MINUTE test-domain.tenant_t*prod.resource_res*v2",
            "test-domain|tenant=t*prod|resource=res*v2",
        ),
        // 14
        ("(file=test1)", "50 MINUTE test-domain.file_test1", "test-domain|file=test1"),
        ("(file=test2)", "100 MINUTE test-domain.file_test*", "test-domain|file=test*"),
        ("(file=test23)", "100 MINUTE test-domain.file_test*", "test-domain|file=test*"),
        ("(midpath=/api-beta-v1)", "100 MINUTE test-domain.midpath_/api*v1", "test-domain|midpath=/api*v1"),
        // The pattern stands in at its own level alone.
        (
            "(nested=parent)(files=nested/z)",
            "200 MINUTE test-domain.nested_parent.files_nested/*",
            "test-domain|nested=parent|files=nested/*",
        ),
    ];
    for (asked, expected, key) in table {
        assert_eq!(told(&config, "test-domain", asked), expected, "{asked}");
        assert_eq!(counter(&config, "test-domain", asked), key, "{asked}");
    }
    for asked in ["(midpath=/api/v2)", "(multiroute=svcABCrpc)"] {
        assert_eq!(told(&config, "test-domain", asked), NONE, "{asked}");
    }
}

#[test]
fn case_15_values_that_join_the_name() {
    let limit = "rate_limit: {unit: minute, requests_per_unit: 1}";
    let told_of = |descriptors: &str, asked: &str| {
        told(&parse(&format!("domain: d\ndescriptors: [{descriptors}]\n")), "d", asked)
    };
    let wild = format!("{{key: wild, value: foo*, value_to_metric: true, {limit}}}");
    assert_eq!(told_of(&wild, "(wild=foo1)"), "1 MINUTE d.wild_foo1");
    let shared = format!("{{key: wild, value: foo*, value_to_metric: true, share_threshold: true, {limit}}}");
    assert_eq!(told_of(&shared, "(wild=foo1)"), "1 MINUTE d.wild_foo*");
    let nested = format!(
        "{{key: wild, value: foo*, descriptors: [{{key: other, value_to_metric: true, descriptors: [{{key: limit, {limit}}}]}}]}}"
    );
    assert_eq!(told_of(&nested, "(wild=foo1)(other=bar)(limit=X)"), "1 MINUTE d.wild_foo*.other_bar.limit");
    let three = format!(
        "{{key: route, value_to_metric: true, descriptors: [{{key: http_method, value_to_metric: true, descriptors: [{{key: subject_id, {limit}}}]}}]}}"
    );
    assert_eq!(
        told_of(&three, "(route=draw)(http_method=GET)(subject_id=7)"),
        "1 MINUTE d.route_draw.http_method_GET.subject_id"
    );
    assert_eq!(
        told_of(&three, "(route=)(http_method=GET)(subject_id=7)"),
        "1 MINUTE d.route.http_method_GET.subject_id"
    );
    // Detailed: `key_` for an empty value, as theirs.
    let detailed = format!("{{key: a, descriptors: [{{key: b, detailed_metric: true, {limit}}}]}}");
    assert_eq!(told_of(&detailed, "(a=)(b=2)"), "1 MINUTE d.a_.b_2");
}

#[test]
fn patterns_are_tried_in_the_order_of_the_file() {
    let limit = |count: u32| format!("rate_limit: {{unit: minute, requests_per_unit: {count}}}");
    let config = parse(&format!(
        "domain: d\ndescriptors:\n  - {{key: k, value: a*, {}}}\n  - {{key: k, value: ab*, {}}}\n  - {{key: k, {}}}\n  - {{key: k, value: abc, {}}}\n  - {{key: 'a*', {}}}\n",
        limit(1),
        limit(2),
        limit(3),
        limit(4),
        limit(5)
    ));
    for (asked, expected) in [
        ("(k=abx)", "1 MINUTE d.k_a*"),
        ("(k=abc)", "4 MINUTE d.k_abc"),
        ("(k=b)", "3 MINUTE d.k"),
        ("(k=)", "3 MINUTE d.k"),
        // In a key it is a character like any other.
        ("(a*=x)", "5 MINUTE d.a*"),
        ("(ab=x)", NONE),
    ] {
        assert_eq!(told(&config, "d", asked), expected, "{asked}");
    }
}
