//! Protobuf: io.prometheus.client.MetricFamily, each with its length before it. Histograms have classic and native buckets.

use super::native::{SCHEMA, native};
use super::{classic, sum_s};
use crate::families::{Kind, exposed_name};
use holdup_model::SparseHistogram;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
    #[prost(string, optional, tag = "5")]
    unit: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// A counter or a gauge, which have the same shape.
#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct BucketSpan {
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

#[derive(Default)]
pub(super) struct Writer {
    out: Vec<u8>,
    family: Option<MetricFamily>,
}

impl Writer {
    pub(super) fn family(&mut self, name: &str, help: &str, kind: Kind, unit: &str) {
        self.flush();
        // In this format a counter's family has `_total` in its name, as its series have.
        let name = exposed_name(name, kind);
        let kind = match kind {
            Kind::Counter => 0,
            Kind::Gauge => 1,
            Kind::Histogram => 4,
        };
        self.family = Some(MetricFamily {
            name: Some(name),
            help: Some(help.to_owned()),
            kind: Some(kind),
            metric: Vec::new(),
            unit: (!unit.is_empty()).then(|| unit.to_owned()),
        });
    }

    pub(super) fn number(&mut self, kind: Kind, labels: &[(&str, &str)], value: f64) {
        let number = Some(Number { value: Some(value) });
        let label = pairs(labels);
        self.push(match kind {
            Kind::Counter => Metric { label, counter: number, ..Metric::default() },
            Kind::Gauge | Kind::Histogram => Metric { label, gauge: number, ..Metric::default() },
        });
    }

    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], durations: &SparseHistogram) {
        let of = native(durations);
        let bucket = |(bound, below)| Bucket { cumulative_count: Some(below), upper_bound: Some(bound) };
        let span = |(offset, length): &(i32, u32)| BucketSpan { offset: Some(*offset), length: Some(*length) };
        let mut spans: Vec<BucketSpan> = of.spans.iter().map(span).collect();
        if spans.is_empty() {
            // Without any bucket it would be read as a classic histogram alone.
            spans.push(BucketSpan { offset: Some(0), length: Some(0) });
        }
        let histogram = Histogram {
            sample_count: Some(durations.count()),
            sample_sum: Some(sum_s(durations)),
            bucket: classic(durations).into_iter().map(bucket).collect(),
            schema: Some(SCHEMA),
            zero_threshold: Some(0.0),
            zero_count: Some(0),
            positive_span: spans,
            positive_delta: of.deltas,
        };
        self.push(Metric { label: pairs(labels), histogram: Some(histogram), ..Metric::default() });
    }

    fn push(&mut self, metric: Metric) {
        if let Some(family) = &mut self.family {
            family.metric.push(metric);
        }
    }

    fn flush(&mut self) {
        if let Some(family) = self.family.take() {
            self.out.extend(family.encode_length_delimited_to_vec());
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.flush();
        self.out
    }
}

fn pairs(labels: &[(&str, &str)]) -> Vec<LabelPair> {
    let pair =
        |(name, value): &(&str, &str)| LabelPair { name: Some((*name).to_owned()), value: Some((*value).to_owned()) };
    labels.iter().map(pair).collect()
}
