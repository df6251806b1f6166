//! The reader of pgbench's logs, against data, against a naive reader, and against noise.
use holdup_model::Histogram;
use holdup_postgres::pgbench_log::{LogCounts, LogFormat, LogReader};
use proptest::prelude::*;

const PLAIN: LogFormat = LogFormat { lag: false, retries: false };
const LAG: LogFormat = LogFormat { lag: true, retries: false };
const RETRIES: LogFormat = LogFormat { lag: false, retries: true };
const BOTH: LogFormat = LogFormat { lag: true, retries: true };

fn read(text: &[u8], format: LogFormat, window: (i64, i64)) -> Result<(LogCounts, Histogram, Histogram), String> {
    let mut reader = LogReader::new(window.0, window.1, format, 1500);
    reader.read_file(text).map_err(|p| p.to_string())?;
    Ok(reader.finish())
}

fn every_format_is_read() {
    let check = |text: &str, format: LogFormat, expect: LogCounts| {
        let (counts, latency, lag) = read(text.as_bytes(), format, (10_000_000, 20_000_000)).unwrap();
        assert_eq!(counts, expect, "{text}");
        assert_eq!(latency.count(), expect.completed, "{text}");
        assert_eq!(lag.count(), if format.lag { expect.completed } else { 0 }, "{text}");
    };
    let none = LogCounts::default();
    let one = LogCounts { completed: 1, latency_sum_us: 3428, all_tried: 1, ..none.clone() };
    check("", PLAIN, none.clone());
    check("0 1 3428 0 15 865853\n", PLAIN, one.clone());
    // Both edges belong to the window; one microsecond beyond does not.
    check("0 1 3428 0 10 0\n", PLAIN, one.clone());
    check("0 1 3428 0 20 0\n", PLAIN, one.clone());
    check("0 1 3428 0 9 999999\n", PLAIN, LogCounts { all_tried: 1, ..none.clone() });
    check("0 1 3428 0 20 1\n", PLAIN, LogCounts { all_tried: 1, ..none.clone() });
    check("7 22 3428 1 15 5 120\n", LAG, LogCounts { lag_sum_us: 120, ..one.clone() });
    check("7 22 3428 1 15 5 0\n", RETRIES, one.clone());
    check("7 22 3428 1 15 5 3\n", RETRIES, LogCounts { retried: 1, ..one.clone() });
    check("7 22 3428 1 15 5 120 2\n", BOTH, LogCounts { lag_sum_us: 120, retried: 1, ..one });
    let failed = LogCounts { failed: 1, all_tried: 1, ..none.clone() };
    for word in ["failed", "serialization", "deadlock"] {
        check(&format!("3 9 {word} 0 15 5\n"), PLAIN, failed.clone());
    }
    check("3 9 failed 0 15 5 70 4\n", BOTH, LogCounts { retried: 1, ..failed });
    check("3 9 skipped 0 15 5 0\n", LAG, LogCounts { skipped: 1, all_skipped: 1, ..none });
}

fn think_time_is_what_a_client_does_between_transactions() {
    let log =
        "0 1 100 0 10 0\n1 1 50 0 10 0\n0 2 100 0 10 150\n1 2 failed 0 10 200\n1 3 10 0 10 260\n0 3 100 0 10 249\n";
    let (counts, ..) = read(log.as_bytes(), PLAIN, (10_000_100, i64::MAX)).unwrap();
    // Client 0: 150 − 100 = 50, then 99 − 100: none. Client 1, after its failure: 60 − 10 = 50.
    assert_eq!((counts.thinks, counts.think_sum_us), (3, 100));
}

fn unknown_lines_are_quoted_with_their_number() {
    let check = |text: &str, format: LogFormat, quoted: &str| {
        let refused = read(text.as_bytes(), format, (0, i64::MAX)).unwrap_err();
        assert!(refused.contains(quoted), "{quoted:?} in {refused:?}");
    };
    check("0 1 5 0 1 1\nhello\n", PLAIN, "line 2 is not known: `hello`");
    check("0 1 5 0 1 1\n\n", PLAIN, "line 2 is not known: ``");
    check("0 1 5 0 1 1 7\n", PLAIN, "line 1 is not known: `0 1 5 0 1 1 7`");
    check("0 1 5 0 1 1\n", LAG, "line 1");
    check("0 1 5 0 1 1 1\n", BOTH, "line 1");
    check("0 1 -5 0 1 1\n", PLAIN, "line 1");
    check("0 1 5.5 0 1 1\n", PLAIN, "line 1");
    check("0 1 lost 0 1 1\n", PLAIN, "`0 1 lost 0 1 1`");
    check("0 1 failedx 0 1 1\n", PLAIN, "line 1");
    check("0  1 5 0 1 1\n", PLAIN, "line 1");
    check("0 1 5 0 1 1 \n", PLAIN, "line 1");
    check("0 1 5 0 1 1\r\n", PLAIN, "\\r");
    check("0 1 99999999999999999999 0 1 1\n", PLAIN, "line 1");
    check("0 1 5 0 1 1", PLAIN, "line 1 is not known: `0 1 5 0 1 1`");
    check("0 1 5 0 1 1\n0 2 5 0", PLAIN, "line 2 is not known: `0 2 5 0`");
    check(&"9".repeat(100_000), PLAIN, "…`");
    check(&format!("{}\n", "9".repeat(1000)), PLAIN, "…`");
}

/// The same by splitting and parsing, line by line, into its own histogram.
fn naive(text: &str, format: LogFormat, window: (i64, i64)) -> (LogCounts, Histogram, Histogram) {
    let (mut counts, mut latency, mut lag) = (LogCounts::default(), Histogram::new(), Histogram::new());
    let mut ends: std::collections::HashMap<usize, i64> = std::collections::HashMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let at: i64 = fields[4].parse::<i64>().unwrap() * 1_000_000 + fields[5].parse::<i64>().unwrap();
        let inside = (window.0..=window.1).contains(&at);
        let lag_us: u64 = if format.lag { fields[6].parse().unwrap() } else { 0 };
        let retries: u64 = if format.retries { fields[fields.len() - 1].parse().unwrap() } else { 0 };
        *(if fields[2] == "skipped" { &mut counts.all_skipped } else { &mut counts.all_tried }) += 1;
        let client: usize = fields[0].parse().unwrap();
        let before = if format.lag || client >= 1500 { None } else { ends.insert(client, at) };
        if !inside {
            continue;
        }
        counts.retried += u64::from(retries > 0);
        match fields[2] {
            "skipped" => counts.skipped += 1,
            "failed" => counts.failed += 1,
            time => {
                let us: u64 = time.parse().unwrap();
                counts.completed += 1;
                counts.latency_sum_us += us;
                latency.record_ns(us * 1000);
                if let Some(before) = before {
                    counts.thinks += 1;
                    counts.think_sum_us += (at - before).max(0).saturating_sub(us.cast_signed()).max(0).cast_unsigned();
                }
                if format.lag {
                    counts.lag_sum_us += lag_us;
                    lag.record_ns(lag_us * 1000);
                }
            }
        }
    }
    (counts, latency, lag)
}

fn a_line(format: LogFormat) -> impl Strategy<Value = String> {
    let time = prop_oneof![
        8 => (0u64..5_000_000).prop_map(|t| t.to_string()),
        1 => (0u64..10_000_000_000).prop_map(|t| t.to_string()),
        1 => Just("failed".to_owned()),
        1 => Just("skipped".to_owned()),
    ];
    (0u32..2000, 0u64..1_000_000, time, 0u32..4, 0u64..30, 0u64..1_000_000, 0u64..9_000_000, 0u64..4).prop_map(
        move |(client, number, time, script, s, us, lag, retries)| {
            let mut line = format!("{client} {number} {time} {script} {s} {us}");
            if format.lag {
                line += &format!(" {lag}");
            }
            if format.retries {
                line += &format!(" {retries}");
            }
            line + "\n"
        },
    )
}

fn a_log() -> impl Strategy<Value = (LogFormat, String)> {
    (any::<bool>(), any::<bool>()).prop_flat_map(|(lag, retries)| {
        let format = LogFormat { lag, retries };
        proptest::collection::vec(a_line(format), 0..200).prop_map(move |lines| (format, lines.concat()))
    })
}

proptest! {
    fn pieces_of_any_size_count_as_a_naive_reader_does(
        (format, text) in a_log(),
        cuts in proptest::collection::vec(0usize..10_000, 0..20),
        begin in 0i64..30_000_000,
        length in 0i64..30_000_000,
    ) {
        let mut reader = LogReader::new(begin, begin + length, format, 1500);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(text.len())).collect();
        cuts.sort_unstable();
        let mut from = 0;
        for cut in cuts.into_iter().chain([text.len()]) {
            reader.feed(&text.as_bytes()[from..cut]).unwrap();
            from = cut;
        }
        reader.end_of_file().unwrap();
        prop_assert_eq!(reader.lines(), text.lines().count() as u64);
        prop_assert_eq!(reader.finish(), naive(&text, format, (begin, begin + length)));
    }

    fn no_bytes_make_it_panic(
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b' '), Just(b'\n'), b'0'..=b'9'], 0..2000),
        lag in any::<bool>(), retries in any::<bool>(), piece in 1usize..300,
    ) {
        let mut reader = LogReader::new(i64::MIN, i64::MAX, LogFormat { lag, retries }, 8);
        for part in bytes.chunks(piece) {
            if reader.feed(part).is_err() {
                break;
            }
        }
        let _cut = reader.end_of_file();
    }

    fn a_good_log_with_one_byte_changed_never_makes_it_panic(
        (format, text) in a_log(), place in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = text.into_bytes();
        if !bytes.is_empty() {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        let _result = read(&bytes, format, (0, i64::MAX));
    }
}

holdup_testkit::tests!(
    every_format_is_read,
    think_time_is_what_a_client_does_between_transactions,
    unknown_lines_are_quoted_with_their_number,
    pieces_of_any_size_count_as_a_naive_reader_does,
    no_bytes_make_it_panic,
    a_good_log_with_one_byte_changed_never_makes_it_panic
);
