//! The text formats.

use super::{classic, sum_s};
use crate::families::{Kind, exposed_name};
use holdup_model::SparseHistogram;
use std::fmt::Write;

pub(super) struct Writer {
    out: String,
    /// OpenMetrics 1.0, not text 0.0.4.
    is_open: bool,
}

impl Writer {
    pub(super) fn new(is_open: bool) -> Self {
        Writer { out: String::with_capacity(1 << 16), is_open }
    }

    pub(super) fn family(&mut self, name: &str, help: &str, kind: Kind, unit: &str) {
        // In OpenMetrics a counter's family has its name without `_total`, in the older format with it.
        let name = if self.is_open { name.to_owned() } else { exposed_name(name, kind) };
        let kind = kind.name();
        self.line(format_args!("# TYPE {name} {kind}"));
        if self.is_open && !unit.is_empty() {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        // In the older format a quotation mark is not escaped here.
        let help = if self.is_open { escaped(help) } else { help.replace('\\', "\\\\").replace('\n', "\\n") };
        self.line(format_args!("# HELP {name} {help}"));
    }

    pub(super) fn number(&mut self, name: &str, kind: Kind, labels: &[(&str, &str)], value: f64) {
        let (name, labels) = (exposed_name(name, kind), in_braces(labels, None));
        self.line(format_args!("{name}{labels} {value}"));
    }

    pub(super) fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &SparseHistogram) {
        for (bound, below) in classic(histogram) {
            let labels = in_braces(labels, Some(&format!("{bound}")));
            self.line(format_args!("{name}_bucket{labels} {below}"));
        }
        let (all, plain) = (in_braces(labels, Some("+Inf")), in_braces(labels, None));
        let (count, sum_s) = (histogram.count(), sum_s(histogram));
        self.line(format_args!("{name}_bucket{all} {count}"));
        self.line(format_args!("{name}_sum{plain} {sum_s}"));
        self.line(format_args!("{name}_count{plain} {count}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _written = writeln!(self.out, "{line}");
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.is_open {
            self.out.push_str("# EOF\n");
        }
        self.out.into_bytes()
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn in_braces(labels: &[(&str, &str)], le: Option<&str>) -> String {
    if labels.is_empty() && le.is_none() {
        return String::new();
    }
    let all = labels.iter().copied().chain(le.map(|bound| ("le", bound)));
    let all: Vec<String> = all.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", all.join(","))
}
