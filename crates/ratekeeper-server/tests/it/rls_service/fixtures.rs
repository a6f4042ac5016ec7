//! Configurations that the Go service is tested with.

/// Two domains of its integration tests.
pub(crate) const ANOTHER: [(&str, &str); 2] = [
    (
        "another.yaml",
        "
domain: another
descriptors:
  - {key: key2, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: key3, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: key4, rate_limit: {unit: day, requests_per_unit: 20}}
",
    ),
    (
        "basic.yaml",
        "{domain: basic, descriptors: [{key: key1, rate_limit: {unit: second, requests_per_unit: 50}}]}",
    ),
];

/// Patterns whose values share a counter, or do not.
pub(crate) const SHARED: [(&str, &str); 1] = [(
    "shared.yaml",
    "
domain: share-threshold-test
descriptors:
  - {key: files, value: files/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: files_no_share, value: files_no_share/*, rate_limit: {unit: hour, requests_per_unit: 10}}
",
)];

/// Its example.
pub(crate) const EXAMPLE: [(&str, &str); 1] = [(
    "example.yaml",
    "
domain: rl
descriptors:
  - key: foo
    rate_limit: {unit: minute, requests_per_unit: 2}
    descriptors:
      - {key: bar, rate_limit: {unit: minute, requests_per_unit: 3}}
      - {key: bar, value: bkthomps, rate_limit: {unit: minute, requests_per_unit: 1, name: bkthomps}}
      - {key: bar, value: banned, rate_limit: {unit: minute, requests_per_unit: 0, name: banned_limit}}
      - {key: baz, value: not-so-shady, rate_limit: {unit: minute, requests_per_unit: 3}}
      - {key: baz, value: shady, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 3}}
  - key: source_cluster
    value: proxy
    descriptors:
      - key: destination_cluster
        value: bkthomps
        rate_limit: {unit: minute, requests_per_unit: 2, replaces: [{name: bkthomps}]}
      - {key: destination_cluster, value: mock, rate_limit: {unit: minute, requests_per_unit: 1}}
      - key: destination_cluster
        value: override
        rate_limit: {unit: minute, requests_per_unit: 2, replaces: [{name: banned_limit}]}
      - {key: destination_cluster, value: fake, rate_limit: {unit: minute, requests_per_unit: 2, name: fake_name}}
  - key: category
    value: account
    rate_limit: {unit: minute, requests_per_unit: 4, replaces: [{name: bkthomps}, {name: fake_name}]}
  - {key: unspec, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - key: service
    value: service_1
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
    metadata: {service_with_quota: {name: service_1}}
  - key: service
    value: service_2
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 2}
    metadata: {service_with_quota: {name: service_2}}
",
)];
