//! Small sessions and the marks of each of their segments. The marks were taken from tshark 4.6.9; a tshark that is here is asked
//! again.

use crate::against_tshark::{BEGIN_NS, capture, judge};
use crate::made::Tcp;
use crate::tshark::{compare, decoded};
use holdup_packets::segment::{Address, Endpoint};
use holdup_packets::wireshark::{Limits, Table};

/// Each session has a name and lines: the time in ms, who sends (`c` began the connection), flags, sequence number,
/// acknowledgement number, payload, window, options; after the colon the marks, by the last word of Wireshark's names.
const CASES: &str = include_str!("cases.txt");

struct Case {
    name: &'static str,
    frames: Vec<(i64, Tcp)>,
    marks: Vec<String>,
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in CASES.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("# ") {
            cases.push(Case { name, frames: Vec::new(), marks: Vec::new() });
            continue;
        }
        let number = cases.len() as u16;
        let case = cases.last_mut().expect("a name comes first");
        let (segment, marks) = line.split_once(':').expect("a colon before the marks");
        case.frames.push(parsed(segment, number));
        case.marks.push(marks.trim().to_owned());
    }
    cases
}

fn parsed(text: &str, number: u16) -> (i64, Tcp) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let end = |host: u32| Endpoint { address: Address::V4(0x0a00_0000 | host), port: 1000 + number };
    let (from, to) = if words[1] == "c" { (end(1), end(2)) } else { (end(2), end(1)) };
    let word = |i: usize| words[i].parse::<u32>().expect("a number");
    let mut tcp = Tcp::new(from, to);
    tcp.flags = words[2].chars().fold(0, |flags, letter| flags | 1 << "FSRPA".find(letter).expect("a flag"));
    (tcp.seq, tcp.ack, tcp.payload_bytes, tcp.window) = (word(3), word(4), word(5) as usize, word(6) as u16);
    for option in &words[7..] {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "mss" => tcp.options.mss = value.parse().ok(),
            "shift" => tcp.options.window_shift = value.parse().ok(),
            "permitted" => tcp.options.sack_permitted = true,
            "cookie" => tcp.more_options = vec![34, 6, 1, 2, 3, 4, 1, 1],
            "sack" => {
                let (first, end) = value.split_once('-').expect("two numbers");
                let block = (first.parse().expect("a number"), end.parse().expect("a number"));
                tcp.options.sacks[usize::from(tcp.options.sack_count)] = block;
                tcp.options.sack_count += 1;
            }
            _ => panic!("{option}"),
        }
    }
    (BEGIN_NS + (words[0].parse::<f64>().expect("ms") * 1e6) as i64, tcp)
}

pub(crate) fn small_sessions_have_the_marks_that_tshark_gave() {
    let mut differences = String::new();
    for case in cases() {
        let mut table = Table::new(Limits::default());
        let segments = decoded(&capture(&case.frames));
        let marks = segments.iter().map(|segment| {
            let kinds = table.judge(segment).expect("within the limits").kinds;
            let words: Vec<&str> =
                kinds.iter().map(|kind| kind.field().rsplit('.').next().unwrap_or_default()).collect();
            words.join(" ")
        });
        for (i, (ours, expected)) in marks.zip(&case.marks).enumerate() {
            if ours != *expected {
                differences += &format!("{}, segment {}: {ours}; expected {expected}\n", case.name, i + 1);
            }
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

pub(crate) fn tshark_gives_small_sessions_these_marks() {
    let tshark = judge::tshark();
    for case in cases() {
        compare(&tshark, &capture(&case.frames), &[], case.name);
    }
}
