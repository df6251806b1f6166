//! For measuring: makes a large perf.data of a small one, and follows a trace of any format.
//!
//!     cargo run --release -p holdup-traces --example large -- multiply SMALL TIMES LARGE
//!     cargo run --release -p holdup-traces --example large -- follow FILE
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "run by hand")]

use holdup_model::MemoryBudget;
use holdup_traces::account::{Account, Selection};
use holdup_traces::{Bytes, read};
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt;

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Writes the records `times` times, each time later by their span.
fn multiply(small: &str, times: u64, large: &str) -> io::Result<()> {
    let bytes = std::fs::read(small)?;
    let (attributes, begin, length) = (u64_at(&bytes, 24) as usize, u64_at(&bytes, 40) as usize, u64_at(&bytes, 48));
    let end = begin + length as usize;
    // The fields before the time: identifier, IP, TID.
    let fields = u64_at(&bytes, attributes + 24);
    let before = 8 * (fields & (1 << 16 | 1 | 1 << 1)).count_ones() as usize;
    let (mut at, mut places, mut stamps) = (begin, Vec::new(), Vec::new());
    while at < end {
        let size = usize::from(u16::from_le_bytes(bytes[at + 6..at + 8].try_into().unwrap()));
        if bytes[at] == 9 {
            places.push(at + 8 + before - begin);
            stamps.push(u64_at(&bytes, at + 8 + before));
        }
        at += size;
    }
    let span = stamps.iter().max().unwrap() - stamps.iter().min().unwrap() + 1_000;
    let mut out = BufWriter::new(File::create(large)?);
    let mut head = bytes[..begin].to_vec();
    head[48..56].copy_from_slice(&(length * times).to_le_bytes());
    out.write_all(&head)?;
    let mut copy = bytes[begin..end].to_vec();
    for round in 0..times {
        for (place, stamp) in places.iter().zip(&stamps) {
            copy[*place..place + 8].copy_from_slice(&(stamp + round * span).to_le_bytes());
        }
        out.write_all(&copy)?;
    }
    // The places of the parts behind the records, which moved.
    let mut rest = bytes[end..].to_vec();
    let parts: u32 = bytes[72..104].iter().map(|byte| byte.count_ones()).sum();
    for part in 0..parts as usize {
        let moved = u64_at(&rest, part * 16) + length * (times - 1);
        rest[part * 16..part * 16 + 8].copy_from_slice(&moved.to_le_bytes());
    }
    out.write_all(&rest)
}

struct Opened(File, u64);

impl Bytes for Opened {
    fn length(&self) -> u64 {
        self.1
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(&self.0, into, at)
    }
}

fn follow(path: &str) -> io::Result<()> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let budget = MemoryBudget::default();
    let (mut account, mut events) = (Account::new(Selection::default(), &budget), 0_u64);
    let head = read(path, &Opened(file, length), &budget, &mut |event| {
        events += 1;
        account.add(&event).expect("there is memory for its tasks");
        Ok(())
    })
    .expect("it is a trace");
    let finished = account.finish(&head.frames).expect("there is memory for its functions");
    let (windows, switches) = (finished.windows.len(), finished.seen.switches);
    println!("{}: {length} bytes, {events} events, {switches} switches, {windows} windows", head.format);
    Ok(())
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["multiply", small, times, large] => multiply(small, times.parse().unwrap(), large),
        ["follow", path] => follow(path),
        _ => panic!("multiply SMALL TIMES LARGE, or follow FILE"),
    }
}
