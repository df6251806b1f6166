//! Counters in the formats that are scraped: OpenMetrics 1.0, the text format 0.0.4, and protobuf, which alone has native
//! histograms.

mod native;
mod protobuf;
mod text;

use crate::counters::{Counters, Series, Value};
use crate::families::{Family, Kind};
use std::collections::BTreeMap;

/// A format of exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
    /// `text/plain; version=0.0.4`, also that of node_exporter's textfile collector.
    Text,
    /// `application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited`.
    Protobuf,
}

impl Format {
    /// The value of Content-Type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The best one that a client takes, by the value of its Accept header (RFC 9110, 12.5.1); text where it takes none of
    /// them.
    pub fn accepted(accept: &str) -> Format {
        let mut best = (Format::Text, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let parameters: Vec<&str> = parts.collect();
            let of = |name: &str| parameters.iter().find_map(|p| p.strip_prefix(name)?.strip_prefix('='));
            let quality = of("q").map_or(1.0, |q| q.parse().unwrap_or(0.0));
            let format = match kind {
                "application/openmetrics-text" if of("version").is_none_or(|v| v.starts_with("1.")) => {
                    Format::OpenMetrics
                }
                "application/vnd.google.protobuf"
                    if of("proto") == Some("io.prometheus.client.MetricFamily")
                        && of("encoding") == Some("delimited") =>
                {
                    Format::Protobuf
                }
                "text/plain" => Format::Text,
                _ => continue,
            };
            if quality > best.1 {
                best = (format, quality);
            }
        }
        best.0
    }
}

/// A family outside the catalogue: what the exporter says of itself.
pub struct Own {
    /// Its name without `_total`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// Its unit, or nothing.
    pub unit: &'static str,
    /// Its series: labels with their values, and the number.
    pub series: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// Lowest upper bound of a bucket of classic histograms, s.
const FIRST_BOUND_S: f64 = 1e-6;
/// Buckets of classic histograms beside the last: up to 4.2 s, each twice as wide as the one before.
const BOUNDS: i32 = 23;

/// Renders what is counted of everything that is watched, and what the exporter says of itself.
pub fn render(all: &[&Counters], own: &[Own], format: Format) -> Vec<u8> {
    let mut out = match format {
        Format::OpenMetrics => Out::Text(text::Writer::new(true)),
        Format::Text => Out::Text(text::Writer::new(false)),
        Format::Protobuf => Out::Protobuf(protobuf::Writer::default()),
    };
    if let Some(first) = all.first() {
        for (at, (family, _)) in first.families().enumerate() {
            let mut labelled = Vec::new();
            for counters in all {
                let Some((_, series)) = counters.families().nth(at) else { continue };
                labelled.extend(with_labels(family, counters.watched(), series));
            }
            if !labelled.is_empty() {
                out.family(family.name, family.help, family.kind, family.unit);
                labelled.iter().for_each(|(labels, value)| out.series(family, labels, value));
            }
        }
    }
    for own in own.iter().filter(|own| !own.series.is_empty()) {
        out.family(own.name, own.help, own.kind, own.unit);
        for (labels, value) in &own.series {
            let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            out.number(own.name, own.kind, &labels, *value);
        }
    }
    out.finish()
}

/// The labels of a series with their values.
type Labels<'a> = Vec<(&'a str, &'a str)>;

fn with_labels<'a>(
    family: &'a Family,
    watched: &'a str,
    series: &'a BTreeMap<Vec<String>, Series>,
) -> impl Iterator<Item = (Labels<'a>, &'a Value)> {
    series.iter().map(move |(values, series)| {
        let own = family.labels.iter().zip(values).map(|(name, value)| (*name, value.as_str()));
        (std::iter::once(("watched", watched)).chain(own).collect(), &series.value)
    })
}

enum Out {
    Text(text::Writer),
    Protobuf(protobuf::Writer),
}

impl Out {
    fn family(&mut self, name: &str, help: &str, kind: Kind, unit: &str) {
        match self {
            Out::Text(writer) => writer.family(name, help, kind, unit),
            Out::Protobuf(writer) => writer.family(name, help, kind, unit),
        }
    }

    fn number(&mut self, name: &str, kind: Kind, labels: &[(&str, &str)], value: f64) {
        match self {
            Out::Text(writer) => writer.number(name, kind, labels, value),
            Out::Protobuf(writer) => writer.number(kind, labels, value),
        }
    }

    fn series(&mut self, family: &Family, labels: &[(&str, &str)], value: &Value) {
        match (self, value) {
            (out, Value::Number(value)) => out.number(family.name, family.kind, labels, *value),
            (Out::Text(writer), Value::Durations(histogram)) => writer.histogram(family.name, labels, histogram),
            (Out::Protobuf(writer), Value::Durations(histogram)) => writer.histogram(labels, histogram),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Out::Text(writer) => writer.finish(),
            Out::Protobuf(writer) => writer.finish(),
        }
    }
}

/// The upper bounds of classic buckets, s, and how many durations are at most as long as each.
fn classic(histogram: &holdup_model::SparseHistogram) -> Vec<(f64, u64)> {
    let mut bounds: Vec<(f64, u64)> = (0..BOUNDS).map(|n| (FIRST_BOUND_S * 2f64.powi(n), 0)).collect();
    for (lowest_ns, highest_ns, count) in histogram.buckets() {
        let middle_s = (lowest_ns + (highest_ns - lowest_ns) / 2) as f64 / 1e9;
        bounds.iter_mut().filter(|(bound, _)| middle_s <= *bound).for_each(|(_, below)| *below += count);
    }
    bounds
}

/// The sum of all durations, s.
fn sum_s(histogram: &holdup_model::SparseHistogram) -> f64 {
    histogram.mean_ns().unwrap_or(0.0) * histogram.count() as f64 / 1e9
}
