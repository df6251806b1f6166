//! From the frames of a capture to what was counted of it.

use crate::capture::{Chain, Frames};
use crate::decode::{self, Decoded, Decoder, Why};
use crate::flows::Analysis;
use crate::rfc;
use crate::segment::Segment;
use crate::wireshark::{self, Table};
use holdup_model::Problem;
use holdup_model::text::count;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

/// How many segments one thread hands to another at once: what a core's own cache holds with the connections that they touch.
const BATCH: usize = 512;

/// How many batches may wait.
const WAITING: usize = 4;

/// What may be kept of a capture, and how it is gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Connections.
    pub flows: u32,
    /// Whether segments are decoded by a thread of its own while the calling one judges. With a reader that reads ahead
    /// ([`Reader::ahead`](crate::capture::Reader::ahead)) there are three. The outcome is the same to the last count.
    pub with_threads: bool,
    /// Whether our own judgement ([`rfc`]) is made beside Wireshark's.
    pub with_own: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { flows: wireshark::Limits::default().flows, with_threads: false, with_own: false }
    }
}

/// A capture that was analysed.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysed {
    /// What was counted.
    pub analysis: Analysis,
    /// Frames that are no segment of TCP, by why.
    pub others: Others,
    /// Our own judgement of all connections together, where it was asked for.
    pub own: Option<rfc::Findings>,
}

/// Frames that are no segment of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Others {
    /// Of another protocol, or of one that is not understood.
    pub not_tcp: u64,
    /// Captured too short to tell.
    pub cut: u64,
    /// With a header that cannot be as it is.
    pub malformed: u64,
    /// Parts of datagrams of which others are missing, or come later.
    pub fragments: u64,
}

impl Others {
    fn add(&mut self, why: Why) {
        *match why {
            Why::NotTcp => &mut self.not_tcp,
            Why::Cut => &mut self.cut,
            Why::Malformed => &mut self.malformed,
            Why::Fragment => &mut self.fragments,
        } += 1;
    }

    fn all(&self) -> u64 {
        self.not_tcp + self.cut + self.malformed + self.fragments
    }
}

impl Analysed {
    /// Why there is no connection, for an error: `there is no TCP in its 12 frames: 12 of other protocols`.
    pub fn why_none(&self) -> String {
        if self.analysis.frames == 0 {
            return "there is no frame in it".to_owned();
        }
        let frames = |n: u64| count(usize::try_from(n).unwrap_or(usize::MAX), "frame");
        let Others { not_tcp, cut, malformed, fragments } = self.others;
        let told: Vec<String> = [
            (not_tcp, "of other protocols"),
            (cut, "cut too short to tell"),
            (malformed, "with a header that cannot be"),
            (fragments, "that are fragments of datagrams that never came together"),
        ]
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
        format!("there is no TCP in its {}: {}", frames(self.analysis.frames), told.join(", "))
    }
}

/// What was gone through beside segments.
#[derive(Debug, Clone, Copy)]
struct Read {
    frames: u64,
    others: Others,
    /// When the first and the last frame were captured; the other way round before there is one.
    times_ns: (i64, i64),
    fragments_given_up: u64,
}

/// Reads a capture to its end, as Wireshark 4.6 judges it.
///
/// # Errors
/// As [`Frames::next`], and when there can be no thread.
pub fn analyse(frames: &mut Chain<'_>, options: &Options) -> Result<Analysed, Problem> {
    let mut table = Table::new(wireshark::Limits { flows: options.flows, ..wireshark::Limits::default() });
    let mut own = options.with_own.then(rfc::Judge::default);
    let mut judge = |segment: &Segment| {
        let Some(own) = &mut own else { return table.count(segment) };
        if let Some(marks) = table.judge(segment) {
            own.judge(segment, &marks);
        }
    };
    let read = if options.with_threads {
        decode_aside(frames, judge)?
    } else {
        decode(frames, |segment| {
            judge(segment);
            true
        })?
    };
    let mut analysis = table.finish();
    analysis.frames = read.frames;
    analysis.other_frames = read.others.all();
    analysis.given_up.fragments = read.fragments_given_up;
    if read.frames > 0 {
        (analysis.first_ns, analysis.last_ns) = read.times_ns;
    }
    let own = own.map(rfc::Judge::finish);
    Ok(Analysed { analysis, others: read.others, own })
}

/// Judges here what another thread decodes.
fn decode_aside(frames: &mut Chain<'_>, mut judge: impl FnMut(&Segment)) -> Result<Read, Problem> {
    let (send, batches) = sync_channel(WAITING);
    let (give_back, free) = channel();
    thread::scope(|scope| {
        let decoding = thread::Builder::new()
            .name("holdup-decode".to_owned())
            .spawn_scoped(scope, move || decode_in_batches(frames, &send, &free))
            .map_err(|e| Problem::host("a thread that decodes", e.to_string()))?;
        for mut batch in batches {
            batch.iter().for_each(&mut judge);
            batch.clear();
            let _the_last_is_not_wanted_back = give_back.send(batch);
        }
        // A panic of the thread goes on here.
        decoding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn decode_in_batches(
    frames: &mut Chain<'_>,
    to: &SyncSender<Vec<Segment>>,
    free: &Receiver<Vec<Segment>>,
) -> Result<Read, Problem> {
    let mut batch = Vec::with_capacity(BATCH);
    let read = decode(frames, |segment| {
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
fn decode(frames: &mut Chain<'_>, mut each: impl FnMut(&Segment) -> bool) -> Result<Read, Problem> {
    let mut decoder = Decoder::new(decode::Limits::default());
    let mut read = Read { frames: 0, others: Others::default(), times_ns: (i64::MAX, i64::MIN), fragments_given_up: 0 };
    while let Some(frame) = frames.next()? {
        read.frames += 1;
        let (first, last) = &mut read.times_ns;
        (*first, *last) = ((*first).min(frame.at_ns), (*last).max(frame.at_ns));
        match decoder.decode(&frame) {
            // By reference: a copy of what was just written in parts is waited for.
            Decoded::Segment(ref segment) => {
                if !each(segment) {
                    break;
                }
            }
            Decoded::Other(why) => read.others.add(why),
        }
    }
    read.fragments_given_up = decoder.fragments_given_up();
    Ok(read)
}
