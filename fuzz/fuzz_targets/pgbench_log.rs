//! No byte of a pgbench log makes the reader panic, and how it is cut into pieces changes nothing.
#![no_main]

use holdup_postgres::pgbench_log::{LogFormat, LogReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, bool, u8, Vec<u8>)| {
    let (lag, retries, piece, bytes) = input;
    let format = LogFormat { lag, retries };
    let mut whole = LogReader::new(0, i64::MAX, format, 64);
    let mut pieces = LogReader::new(0, i64::MAX, format, 64);
    let read = whole.feed(&bytes).is_ok() && whole.end_of_file().is_ok();
    let cut = bytes.chunks(usize::from(piece) + 1).all(|part| pieces.feed(part).is_ok());
    if read && cut && pieces.end_of_file().is_ok() {
        assert_eq!(whole.finish(), pieces.finish());
    }
});
