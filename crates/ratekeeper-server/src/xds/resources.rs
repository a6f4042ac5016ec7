//! Resources of a control plane become what the compiler takes.

use prost::Message;
use prost_types::value::Kind;
use prost_types::{Any, Struct, Value as ProtoValue};
use serde_json::{Map, Number, Value};

use super::weight::{MOST_PARTS, Weighed, parts};
use crate::one_line::one_line;
use crate::rls::{DescriptorSpec, DomainSpec, LimitSpec};
use crate::transport::grpc::generated::ratelimit_config_ratelimit_v3::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitUnit,
};

/// The type of the resources that are asked for.
pub(super) const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// What a resource without a name is called in messages.
const NAMELESS: &str = "xds";

/// The largest whole number that a float holds exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The most of a text of somebody else's that is repeated in a message, in bytes.
const MOST_QUOTED: usize = 256;

/// Reads all resources of a push. They are sorted by their names, then by their domains: the order in which they are pushed
/// means nothing.
///
/// # Errors
///
/// A resource is of another type, or no message of its type: which one, and what is wrong. Or there is too much in them.
pub(super) fn read_resources(resources: &[Any]) -> Result<Vec<DomainSpec>, String> {
    let mut left = MOST_PARTS;
    for resource in resources {
        left -= parts(&resource.value, Weighed::Domain, left).ok_or_else(|| {
            format!(
                "more than {MOST_PARTS} descriptors, replaced rules and values of metadata in one push; push fewer"
            )
        })?;
    }
    let read = |(index, resource): (usize, &Any)| {
        if resource.type_url != TYPE_URL {
            let given = shortened(&resource.type_url, MOST_QUOTED);
            return Err(format!("resource {index}: its type is {given:?}; must be {TYPE_URL:?}"));
        }
        let config = RateLimitConfig::decode(&*resource.value)
            .map_err(|error| format!("resource {index}: not a RateLimitConfig: {error}"))?;
        Ok(domain(config))
    };
    let mut specs = resources.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    specs.sort_by(|one, other| (&one.file, &one.domain.value).cmp(&(&other.file, &other.domain.value)));
    Ok(specs)
}

/// Returns the beginning of a text, at most so many bytes.
pub(super) fn shortened(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

fn domain(config: RateLimitConfig) -> DomainSpec {
    let name = if config.name.is_empty() { NAMELESS } else { &config.name };
    DomainSpec {
        file: one_line(shortened(name, MOST_QUOTED).to_owned(), MOST_QUOTED).into(),
        domain: config.domain.into(),
        descriptors: config.descriptors.into_iter().map(descriptor).collect(),
    }
}

fn descriptor(descriptor: RateLimitDescriptor) -> DescriptorSpec {
    DescriptorSpec {
        key: descriptor.key.into(),
        value: descriptor.value.into(),
        rate_limit: descriptor.rate_limit.map(limit),
        shadow_mode: descriptor.shadow_mode,
        quota_mode: descriptor.quota_mode,
        detailed_metric: descriptor.detailed_metric,
        metadata: descriptor.metadata.map(fields),
        descriptors: descriptor.descriptors.into_iter().map(self::descriptor).collect(),
        ..DescriptorSpec::default()
    }
}

fn limit(policy: RateLimitPolicy) -> LimitSpec {
    let unit = match RateLimitUnit::try_from(policy.unit) {
        // Nothing was said, and nothing need be.
        Ok(RateLimitUnit::Unknown) if policy.unlimited => None,
        Ok(unit) => Some(unit.as_str_name().into()),
        Err(_) => Some(policy.unit.to_string().into()),
    };
    LimitSpec {
        unit,
        // On this wire 0 and nothing are the same: nobody passes.
        requests_per_unit: (!policy.unlimited).then(|| policy.requests_per_unit.into()),
        unlimited: policy.unlimited,
        name: policy.name.into(),
        replaces: policy.replaces.into_iter().map(|replaced| replaced.name.into()).collect(),
        ..LimitSpec::default()
    }
}

fn fields(metadata: Struct) -> Map<String, Value> {
    metadata.fields.into_iter().map(|(key, value)| (key, json(value))).collect()
}

fn json(value: ProtoValue) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::NumberValue(number)) => json_number(number),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::BoolValue(value)) => Value::Bool(value),
        Some(Kind::StructValue(map)) => Value::Object(fields(map)),
        Some(Kind::ListValue(list)) => Value::Array(list.values.into_iter().map(json).collect()),
    }
}

/// Whole numbers stay whole, as in a file.
fn json_number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and within the bounds of both")]
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rls::{RateLimitConfig as CompiledConfig, RlsSettings};
    use crate::transport::grpc::generated::ratelimit_config_ratelimit_v3::RateLimitReplace;

    fn pushed(config: &RateLimitConfig) -> Any {
        Any { type_url: TYPE_URL.to_owned(), value: config.encode_to_vec() }
    }

    fn policy(unit: i32, requests_per_unit: u32) -> RateLimitPolicy {
        RateLimitPolicy { unit, requests_per_unit, ..RateLimitPolicy::default() }
    }

    fn of_limit(rate_limit: RateLimitPolicy) -> RateLimitConfig {
        let descriptor = RateLimitDescriptor {
            key: "user".to_owned(),
            rate_limit: Some(rate_limit),
            ..RateLimitDescriptor::default()
        };
        RateLimitConfig { name: "r".to_owned(), domain: "edge".to_owned(), descriptors: vec![descriptor] }
    }

    fn mistake(config: &RateLimitConfig) -> String {
        let specs = read_resources(&[pushed(config)]).unwrap();
        CompiledConfig::compile(&specs, &RlsSettings::default()).unwrap_err().to_string()
    }

    #[test]
    fn everything_in_a_resource_is_taken() {
        let value = |kind| ProtoValue { kind: Some(kind) };
        let list =
            prost_types::ListValue { values: vec![value(Kind::NumberValue(0.5)), ProtoValue { kind: None }] };
        let metadata = Struct {
            fields: [
                ("n".to_owned(), value(Kind::NumberValue(-7.0))),
                ("b".to_owned(), value(Kind::BoolValue(true))),
                ("l".to_owned(), value(Kind::ListValue(list))),
                ("s".to_owned(), value(Kind::StringValue("x".to_owned()))),
            ]
            .into(),
        };
        let inner = RateLimitDescriptor {
            key: "path".to_owned(),
            value: "/a*".to_owned(),
            rate_limit: Some(RateLimitPolicy {
                name: "inner".to_owned(),
                replaces: vec![RateLimitReplace { name: "other".to_owned() }],
                ..policy(RateLimitUnit::Week as i32, 9)
            }),
            quota_mode: true,
            detailed_metric: true,
            metadata: Some(metadata),
            ..RateLimitDescriptor::default()
        };
        let outer = RateLimitDescriptor {
            key: "user".to_owned(),
            shadow_mode: true,
            descriptors: vec![inner],
            rate_limit: Some(RateLimitPolicy { unlimited: true, ..RateLimitPolicy::default() }),
            ..RateLimitDescriptor::default()
        };
        let config =
            RateLimitConfig { name: String::new(), domain: "edge".to_owned(), descriptors: vec![outer] };
        let specs = read_resources(&[pushed(&config)]).unwrap();
        let [domain] = &*specs else { panic!("{specs:?}") };
        assert_eq!((&*domain.file, &*domain.domain.value), ("xds", "edge"));
        let outer = &domain.descriptors[0];
        assert!(outer.shadow_mode && outer.rate_limit.as_ref().unwrap().unlimited);
        let inner = &outer.descriptors[0];
        assert_eq!((&*inner.key.value, &*inner.value.value), ("path", "/a*"));
        assert!(inner.quota_mode && inner.detailed_metric && !inner.shadow_mode);
        let metadata = Value::Object(inner.metadata.clone().unwrap());
        assert_eq!(metadata, json!({"n": -7, "b": true, "l": [0.5, null], "s": "x"}));
        let limit = inner.rate_limit.as_ref().unwrap();
        let unit = &limit.unit.as_ref().unwrap().value;
        assert_eq!((unit.as_str(), limit.requests_per_unit.as_ref().unwrap().value), ("WEEK", 9));
        assert_eq!((limit.name.value.as_str(), limit.replaces[0].value.as_str()), ("inner", "other"));
        CompiledConfig::compile(&specs, &RlsSettings::default()).unwrap();
    }

    #[test]
    fn mistakes_are_told_in_the_words_of_files() {
        assert_eq!(mistake(&of_limit(policy(0, 5))), "r: invalid rate limit unit 'UNKNOWN'");
        assert_eq!(mistake(&of_limit(policy(9, 5))), "r: invalid rate limit unit '9'");
        let both = RateLimitPolicy { unlimited: true, ..policy(RateLimitUnit::Day as i32, 0) };
        assert_eq!(mistake(&of_limit(both)), "r: should not specify rate limit unit when unlimited");
        let nameless = RateLimitConfig { domain: String::new(), ..of_limit(policy(1, 1)) };
        assert_eq!(mistake(&nameless), "r: config file cannot have empty domain");
    }

    #[test]
    fn what_is_no_resource_of_ours_is_told_by_its_place() {
        let good = pushed(&of_limit(policy(1, 1)));
        let foreign = Any { type_url: "type.googleapis.com/envoy.Cluster".to_owned(), value: Vec::new() };
        let said = read_resources(&[good.clone(), foreign]).unwrap_err();
        assert!(
            said.starts_with("resource 1: its type is \"type.googleapis.com/envoy.Cluster\"; must be"),
            "{said}"
        );
        let broken = Any { value: vec![0xff; 3], ..good };
        let said = read_resources(&[broken]).unwrap_err();
        assert!(said.starts_with("resource 0: not a RateLimitConfig: "), "{said}");
    }
}
