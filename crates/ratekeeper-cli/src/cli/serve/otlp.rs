//! Where spans are sent: `--otlp`, or `[otlp]`.

use anyhow::Result;
use ratekeeper_server::OtlpSettings;
use ratekeeper_server::config::SampleShare;

use super::layers::Layers;

/// Returns where spans are sent; none if requests are not traced.
pub(super) fn otlp(layers: Layers<'_>) -> Result<Option<OtlpSettings>> {
    let (flags, section) = (layers.flags, &layers.file.otlp);
    let url = layers.pick(("--otlp", flags.otlp.as_deref()), ("otlp.url", section.url.as_deref()));
    let sample = layers.pick(("--otlp-sample", flags.otlp_sample), ("otlp.sample", section.sample));
    let Some(given) = url.value else {
        if sample.value.is_some() {
            return Err(sample.wrong("there is nobody to send spans to; name a collector by --otlp"));
        }
        return Ok(None);
    };
    if !given.starts_with("http://") {
        return Err(url.wrong("not the URL of a collector; write http://host:4318"));
    }
    let usual = OtlpSettings::to(given.to_owned());
    Ok(Some(OtlpSettings {
        sample: sample.value.map_or(usual.sample, SampleShare::millionths),
        service: section.service.clone().unwrap_or(usual.service),
        url: usual.url,
    }))
}
