//! Where the samples are, and how they are read.
#![allow(dead_code, reason = "each test file uses a part of it")]

use holdup_import::{Input, Results, find, read};
use holdup_model::{Measured, Problem};
use std::path::{Path, PathBuf};

pub(crate) fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(kind)
}

pub(crate) fn import(kind: &str, file: &str) -> Results {
    let bytes = std::fs::read(folder(kind).join(file)).unwrap();
    read(find(kind).unwrap(), &mut Input::new(file, bytes.as_slice())).unwrap()
}

pub(crate) fn text(kind: &str, file: &str) -> String {
    std::fs::read_to_string(folder(kind).join(file)).unwrap()
}

/// What comes of a text that is named `it`.
pub(crate) fn parse(kind: &str, text: &str) -> Result<Results, Problem> {
    read(find(kind).unwrap(), &mut Input::new("it", text.as_bytes()))
}

pub(crate) fn values(results: &Results, metric: &str) -> Vec<f64> {
    let of = results.samples.iter().filter(|sample| sample.void.is_none());
    of.flat_map(|sample| &sample.measurements).filter(|m| m.metric == metric).filter_map(|m| m.value.value()).collect()
}

/// Why a metric has no value, for each sample that has none.
pub(crate) fn reasons(results: &Results, metric: &str) -> Vec<String> {
    let of = results.samples.iter().flat_map(|sample| &sample.measurements).filter(|m| m.metric == metric);
    of.filter_map(|m| match &m.value {
        Measured::Absent(why) => Some(why.clone()),
        Measured::Value(_) => None,
    })
    .collect()
}
