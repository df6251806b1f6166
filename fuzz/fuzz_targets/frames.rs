//! Any bytes as what a line brings: each byte is received once and in order, wherever the line is cut, and what is fed among
//! them as a frame is found behind any of them.
#![no_main]

use holdup_model::frame::{Decoder, Received, encode};
use libfuzzer_sys::fuzz_target;

fn received<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Received> {
    let mut decoder = Decoder::new();
    let mut all: Vec<Received> = Vec::new();
    let mut add = |one| match (all.last_mut(), one) {
        (Some(Received::Noise(before)), Received::Noise(more)) => before.extend(more),
        (_, one) => all.push(one),
    };
    for piece in pieces {
        decoder.feed(piece);
        while let Some(one) = decoder.next() {
            add(one);
        }
    }
    while let Some(one) = decoder.end() {
        add(one);
    }
    assert_eq!(decoder.pending_bytes(), 0);
    all
}

fuzz_target!(|data: &[u8]| {
    let (cut, line) = data.split_first().unwrap_or((&0, &[]));
    let whole = received([line]);
    assert_eq!(
        whole,
        received(line.chunks(usize::from(*cut) + 1)),
        "cut into pieces of {} bytes",
        usize::from(*cut) + 1
    );
    let mut received_bytes = Vec::new();
    for one in whole {
        match one {
            Received::Frame { sequence, payload } => received_bytes.extend(encode(sequence, &payload)),
            Received::Noise(bytes) | Received::Damaged { bytes, .. } => received_bytes.extend(bytes),
            Received::Gap { expected, found } => assert_ne!(expected, found),
        }
    }
    assert_eq!(received_bytes, line, "each byte is received once");
    // A payload comes back, of any kind.
    let frame = encode(0, data);
    assert_eq!(received([frame.as_slice()]), [Received::Frame { sequence: 0, payload: data.to_vec() }]);
    // Behind a line feed, the last of the line begins no frame; a header that waits for its body is cut short.
    let after = [line, b"\n", &encode(7, data)].concat();
    assert_eq!(received([after.as_slice()]).last(), Some(&Received::Frame { sequence: 7, payload: data.to_vec() }));
});
