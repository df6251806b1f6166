//! Any bytes as a file of a capture: frames come, then an end or a reason with its offset, and after a reason no frame. What
//! was captured of a frame lies in the file, and numbers go on by one. Its segments are judged, at any times, and
//! several threads count the same as one.
#![no_main]

use holdup_packets::analyse::{Options, analyse};
use holdup_packets::capture::{Chain, Frames, MOST_BLOCK_BYTES, Reader};
use holdup_packets::decode::{Decoded, Decoder, Limits};
use holdup_packets::wireshark::{self, Table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    let mut decoder = Decoder::new(Limits { datagrams: 8, fragments: 8, age_frames: 100 });
    let mut table = Table::new(wireshark::Limits { flows: 8, unacknowledged: 100 });
    let mut frames = 0;
    let failed = loop {
        match reader.next() {
            Ok(Some(frame)) => {
                frames += 1;
                assert_eq!(frame.number, frames);
                assert!(frame.captured.len() <= MOST_BLOCK_BYTES as usize);
                if let Decoded::Segment(segment) = decoder.decode(&frame) {
                    table.judge(&segment);
                }
            }
            Ok(None) => break false,
            Err(problem) => {
                assert!(!problem.why.is_empty() && problem.hint.is_some(), "{problem}");
                break true;
            }
        }
    };
    assert_eq!(reader.next(), Ok(None));
    if let (Some(cut), false) = (reader.cut(), failed) {
        assert!(!cut.to_string().is_empty());
    }
    if frames > 0 {
        let of = |threads| {
            let reader = Reader::new(bytes).expect("it began well before");
            analyse(&mut Chain::one(reader), &Options { threads, with_own: true, ..Options::default() })
        };
        assert!(of(1) == of(3));
    }
});
