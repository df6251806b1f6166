//! Lines per second of the reader of pgbench's logs: `cargo bench -p holdup-postgres --bench pgbench_log`.
//! divan's item throughput is lines per second of one core.

use divan::counter::{BytesCount, ItemsCount};
use holdup_postgres::pgbench_log::{LogFormat, LogReader};
use std::fmt::Write as _;

const LINES: u64 = 2_000_000;

fn main() {
    divan::main();
}

/// Latencies with a long tail, as 64 clients on few CPUs have them, from a fixed seed.
fn log(format: LogFormat) -> Vec<u8> {
    let mut text = String::with_capacity(100 << 20);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for number in 0..LINES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = state >> 33;
        let latency = 40 + (random & 0x3f) + if random.is_multiple_of(50) { random % 20_000 } else { 0 };
        let at = number * 17;
        let _ok = write!(
            text,
            "{} {} {latency} 0 {} {}",
            random % 64,
            number / 64,
            1_795_239_455 + at / 1_000_000,
            at % 1_000_000
        );
        if format.lag {
            let _ok = write!(text, " {}", random % 900);
        }
        text.push('\n');
    }
    text.into_bytes()
}

fn read(text: &[u8], format: LogFormat) -> u64 {
    let mut reader = LogReader::new(1_795_239_460_000_000, i64::MAX, format, 64);
    assert!(reader.read_file(text).is_ok());
    let (counts, latency, _) = reader.finish();
    assert!(counts.completed == latency.count() && counts.all_tried == LINES);
    counts.completed
}

#[divan::bench(args = [false, true])]
fn pgbench_log(bencher: divan::Bencher<'_, '_>, lag: bool) {
    let format = LogFormat { lag, retries: false };
    let text = log(format);
    bencher
        .counter(ItemsCount::new(LINES))
        .counter(BytesCount::new(text.len()))
        .bench_local(|| read(divan::black_box(&text), format));
}
