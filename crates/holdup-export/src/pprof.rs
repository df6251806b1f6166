//! Call stacks for pprof: `profile.proto` of github.com/google/pprof, compressed by gzip.

use flate2::Compression;
use flate2::write::GzEncoder;
use holdup_model::StackProfile;
use holdup_model::stacks::FrameKind;
use prost::Message;
use std::collections::BTreeMap;
use std::io::Write as _;

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}

/// The texts of a profile, each once; the first is empty.
struct Texts {
    all: Vec<String>,
    at: BTreeMap<String, i64>,
}

impl Texts {
    fn new() -> Self {
        Texts { all: vec![String::new()], at: BTreeMap::from([(String::new(), 0)]) }
    }

    fn add(&mut self, text: &str) -> i64 {
        if let Some(at) = self.at.get(text) {
            return *at;
        }
        let at = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.at.insert(text.to_owned(), at);
        at
    }

    fn value(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.add(kind), unit: self.add(unit) }
    }
}

/// The stacks as a file for `go tool pprof`. Each sample has its task, and its role where it has one, as labels (`-tagfocus`,
/// `-tagroot`). A frame that the profile does not have is left out. The module `[kernel]` is a mapping like any other.
pub fn pprof(profile: &StackProfile) -> Vec<u8> {
    let mut texts = Texts::new();
    let is_sampled = profile.unit == "samples" && profile.period_ns > 0;
    let sample_type = match profile.unit.as_str() {
        _ if is_sampled => vec![texts.value("samples", "count"), texts.value("cpu", "nanoseconds")],
        "ns" => vec![texts.value("delay", "nanoseconds")],
        other => vec![texts.value(other, "count")],
    };
    let period_type = sample_type.last().cloned();
    let mut modules: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut mapping, mut location, mut function) = (Vec::new(), Vec::new(), Vec::new());
    for (id, frame) in (1..).zip(&profile.frames) {
        let mapping_id = frame.module.as_deref().map_or(0, |module| {
            let next = modules.len() as u64 + 1;
            *modules.entry(module).or_insert_with(|| {
                mapping.push(Mapping { id: next, filename: texts.add(module), has_functions: true });
                next
            })
        });
        let name = texts.add(&frame.function);
        let mark = if frame.kind == FrameKind::Inlined { " (inlined)" } else { "" };
        let shown = texts.add(&format!("{}{mark}", frame.function));
        function.push(Function { id, name: shown, system_name: name });
        location.push(Location { id, mapping_id, line: vec![Line { function_id: id }] });
    }
    let known = profile.frames.len() as u64;
    let mut sample = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let weight = i64::try_from(stack.weight).unwrap_or(i64::MAX);
        let time = weight.saturating_mul(i64::try_from(profile.period_ns).unwrap_or(i64::MAX));
        let mut label = vec![Label { key: texts.add("task"), str: texts.add(&stack.task) }];
        if let Some(role) = &stack.role {
            label.push(Label { key: texts.add("role"), str: texts.add(role) });
        }
        sample.push(Sample {
            location_id: stack.frames.iter().rev().map(|f| u64::from(*f) + 1).filter(|id| *id <= known).collect(),
            value: if is_sampled { vec![weight, time] } else { vec![weight] },
            label,
        });
    }
    let comment = vec![texts.add(&format!("holdup, {}", profile.name))];
    let period = if is_sampled { i64::try_from(profile.period_ns).unwrap_or(0) } else { 0 };
    let made = Profile {
        sample_type,
        sample,
        mapping,
        location,
        function,
        string_table: texts.all,
        period_type,
        period,
        comment,
    };
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&made.encode_to_vec()).and_then(|()| gzip.finish()).expect("writing to memory does not fail")
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use holdup_model::stacks::{Frame, Stack};
    use std::io::Read as _;

    #[test]
    fn the_innermost_function_comes_first_and_weights_are_times_too() {
        let frame = |function: &str, module: &str| Frame {
            function: function.to_owned(),
            module: Some(module.to_owned()),
            kind: FrameKind::User,
        };
        let profile = StackProfile {
            name: "on_cpu".to_owned(),
            unit: "samples".to_owned(),
            period_ns: 10,
            frames: vec![frame("main", "a"), frame("work", "b"), frame("more", "a")],
            stacks: vec![Stack { task: "t".to_owned(), role: None, frames: vec![0, 1, 9], weight: 7 }],
            truncated: 0,
        };
        let mut bytes = Vec::new();
        GzDecoder::new(pprof(&profile).as_slice()).read_to_end(&mut bytes).unwrap();
        let read = Profile::decode(bytes.as_slice()).unwrap();
        assert_eq!(read.sample[0].location_id, [2, 1], "and a frame that is not there is left out");
        assert_eq!(read.sample[0].value, [7, 70]);
        assert_eq!(read.mapping.len(), 2);
        assert_eq!(read.location[2].mapping_id, read.location[0].mapping_id);
        assert_eq!(read.string_table[read.sample[0].label[0].str as usize], "t");
        assert_eq!(read.string_table[0], "");
    }
}
