//! From the bytes of a capture to what it held.

use crate::capture::Frames;
use crate::decode::{self, Decoded, Decoder};
use crate::flows::Analysis;
use crate::wireshark::{self, Table};
use holdup_model::Problem;

/// Within which limits a capture is analysed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// What may be kept of datagrams in fragments.
    pub fragments: decode::Limits,
    /// What may be kept of connections.
    pub table: wireshark::Limits,
}

/// Analyses a capture to its end, on the calling thread.
///
/// # Errors
/// When it cannot be read, is no capture, or is damaged.
pub fn analyse(frames: &mut impl Frames, limits: Limits) -> Result<Analysis, Problem> {
    let mut decoder = Decoder::new(limits.fragments);
    let mut table = Table::new(limits.table);
    let (mut read, mut other) = (0, 0);
    while let Some(frame) = frames.next()? {
        read += 1;
        match decoder.decode(&frame) {
            Decoded::Segment(segment) => {
                table.judge(&segment);
            }
            Decoded::Other(_) => other += 1,
        }
    }
    let mut analysis = table.finish();
    (analysis.frames, analysis.other_frames) = (read, other);
    analysis.given_up.fragments = decoder.fragments_given_up();
    Ok(analysis)
}
