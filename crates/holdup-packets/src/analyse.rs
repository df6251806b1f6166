//! From the bytes of a capture to what it held.

use crate::capture::Frames;
use crate::decode::{self, Decoded, Decoder};
use crate::flows::Analysis;
use crate::segment::Segment;
use crate::wireshark::{self, Table};
use holdup_model::Problem;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

/// Within which limits a capture is analysed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// What may be kept of datagrams in fragments.
    pub fragments: decode::Limits,
    /// What may be kept of connections.
    pub table: wireshark::Limits,
}

/// How many segments are handed over at once: what a core's own cache holds with the connections that they touch.
const BATCH: usize = 512;

/// How many batches may wait.
const WAITING: usize = 4;

/// What was gone through beside segments.
#[derive(Debug, Clone, Copy, Default)]
struct Read {
    frames: u64,
    other_frames: u64,
    fragments_given_up: u64,
}

/// Analyses a capture to its end, on the calling thread.
///
/// # Errors
/// When it cannot be read, is no capture, or is damaged.
pub fn analyse(frames: &mut impl Frames, limits: Limits) -> Result<Analysis, Problem> {
    let mut table = Table::new(limits.table);
    let read = decode(frames, limits, |segment| {
        table.judge(segment);
        true
    })?;
    Ok(finish(table, read))
}

/// The same with a second thread that decodes while this one judges; with a reader that reads ahead ([`Reader::ahead`]) there are
/// three. The outcome is the same to the last count.
///
/// # Errors
/// As [`analyse`], and when there can be no thread.
///
/// [`Reader::ahead`]: crate::capture::Reader::ahead
pub fn analyse_with_threads(frames: &mut (impl Frames + Send), limits: Limits) -> Result<Analysis, Problem> {
    let mut table = Table::new(limits.table);
    let (send, batches) = sync_channel(WAITING);
    let (give_back, free) = channel();
    let read = thread::scope(|scope| {
        let decoding = thread::Builder::new()
            .name("holdup-decode".to_owned())
            .spawn_scoped(scope, move || decode_in_batches(frames, limits, &send, &free))
            .map_err(|e| Problem::host("a thread that decodes", e.to_string()))?;
        for mut batch in batches {
            for segment in &batch {
                table.judge(segment);
            }
            batch.clear();
            let _the_last_is_not_wanted_back = give_back.send(batch);
        }
        // A panic of the thread goes on here.
        decoding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(finish(table, read))
}

fn decode_in_batches(
    frames: &mut impl Frames,
    limits: Limits,
    to: &SyncSender<Vec<Segment>>,
    free: &Receiver<Vec<Segment>>,
) -> Result<Read, Problem> {
    let mut batch = Vec::with_capacity(BATCH);
    let read = decode(frames, limits, |segment| {
        batch.push(*segment);
        if batch.len() < BATCH {
            return true;
        }
        let empty = free.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
        to.send(std::mem::replace(&mut batch, empty)).is_ok()
    })?;
    let _nobody_judges_any_more = to.send(batch);
    Ok(read)
}

/// Hands every segment over, until that is refused.
#[inline]
fn decode(frames: &mut impl Frames, limits: Limits, mut each: impl FnMut(&Segment) -> bool) -> Result<Read, Problem> {
    let mut decoder = Decoder::new(limits.fragments);
    let mut read = Read::default();
    while let Some(frame) = frames.next()? {
        read.frames += 1;
        match decoder.decode(&frame) {
            Decoded::Segment(segment) => {
                if !each(&segment) {
                    break;
                }
            }
            Decoded::Other(_) => read.other_frames += 1,
        }
    }
    read.fragments_given_up = decoder.fragments_given_up();
    Ok(read)
}

fn finish(table: Table, read: Read) -> Analysis {
    let mut analysis = table.finish();
    (analysis.frames, analysis.other_frames) = (read.frames, read.other_frames);
    analysis.given_up.fragments = read.fragments_given_up;
    analysis
}
