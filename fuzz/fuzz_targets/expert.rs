//! Any two texts as counts of tshark: an answer or a reason, and a text against itself decides nothing.
#![no_main]

use holdup_model::captures::CountsSay;
use holdup_packets::compare::compare_counts;
use holdup_packets::expert::{is_expert, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, f64, f64)| {
    let (a, b, least, most) = input;
    let _ = is_expert(a);
    let (Ok(a), Ok(b)) = (read(a), read(b)) else { return };
    let traffic = (least > 0.0 && least <= most && most.is_finite()).then_some((least, most));
    let _ = compare_counts(("a", &a), ("b", &b), traffic);
    let same = compare_counts(("a", &a), ("a", &a), Some((0.5, 2.0)));
    assert!(same.rows.iter().all(|row| row.says == CountsSay::Depends));
});
