//! Runs a capture through decoder and judgement, on one thread or several.

mod parts;
mod result;
mod threads;

pub use result::{Analysis, Flows};

use crate::capture::{Chain, Frame, Frames};
use crate::decode::{self, Decoded, Decoder, Why};
use crate::rfc;
use crate::segment::Segment;
use crate::wireshark::Limits;
use holdup_model::Problem;
use holdup_model::text::count;
use parts::Parts;

/// The largest number of threads for one capture.
pub const MOST_THREADS: usize = 16;

/// Limits and threads of an analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Of all threads together.
    pub limits: Limits,
    /// The number of threads, the calling one included; at most [`MOST_THREADS`]. The result is identical for any number.
    pub threads: usize,
    /// True if to add our own judgement ([`rfc`]).
    pub with_own: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { limits: Limits::default(), threads: 1, with_own: false }
    }
}

/// An analysed capture.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysed {
    /// The counts.
    pub analysis: Analysis,
    /// Frames without a TCP segment, by reason.
    pub others: Others,
    /// Our own judgement of all connections, if requested.
    pub own: Option<rfc::Findings>,
}

/// Frames without a TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Others {
    /// Another or an unsupported protocol.
    pub not_tcp: u64,
    /// Too little captured.
    pub cut: u64,
    /// A malformed header.
    pub malformed: u64,
    /// Fragments of incomplete datagrams.
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

    fn add_all(&mut self, other: &Others) {
        self.not_tcp += other.not_tcp;
        self.cut += other.cut;
        self.malformed += other.malformed;
        self.fragments += other.fragments;
    }

    fn all(&self) -> u64 {
        self.not_tcp + self.cut + self.malformed + self.fragments
    }
}

impl Analysed {
    /// For an error: `there is no TCP in its 12 frames: 12 of other protocols`.
    pub fn why_none(&self) -> String {
        if self.analysis.frames == 0 {
            return "it has no frames".to_owned();
        }
        let frames = |n: u64| count(usize::try_from(n).unwrap_or(usize::MAX), "frame");
        let Others { not_tcp, cut, malformed, fragments } = self.others;
        let reasons: Vec<String> = [
            (not_tcp, "of other protocols"),
            (cut, "too truncated to decide"),
            (malformed, "with a malformed header"),
            (fragments, "that are fragments of incomplete datagrams"),
        ]
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
        format!("there is no TCP in its {}: {}", frames(self.analysis.frames), reasons.join(", "))
    }
}

#[derive(Debug, Clone, Copy)]
struct Read {
    frames: u64,
    others: Others,
    /// Earliest and latest; reversed before the first frame.
    times_ns: (i64, i64),
}

impl Default for Read {
    fn default() -> Self {
        Read { frames: 0, others: Others::default(), times_ns: (i64::MAX, i64::MIN) }
    }
}

impl Read {
    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        let (first, last) = &mut self.times_ns;
        (*first, *last) = ((*first).min(frame.at_ns), (*last).max(frame.at_ns));
    }

    fn add(&mut self, other: &Read) {
        self.frames += other.frames;
        self.others.add_all(&other.others);
        let (first, last) = &mut self.times_ns;
        (*first, *last) = ((*first).min(other.times_ns.0), (*last).max(other.times_ns.1));
    }
}

/// Analyses a capture to its end.
///
/// # Errors
/// As [`Frames::next`], and when a thread cannot be started.
pub fn analyse(frames: &mut Chain<'_>, options: &Options) -> Result<Analysed, Problem> {
    let mut parts = Parts::new(options);
    let mut decoder = Decoder::new(decode::Limits::default());
    let mut read = Read::default();
    if let Some(part) = parts.single() {
        decode(frames, &mut decoder, &mut read, |segment| part.judge(segment))?;
    } else {
        threads::run(frames, &mut decoder, &mut parts, &mut read)?;
        // The rest, which the threads left.
        decode(frames, &mut decoder, &mut read, |segment| parts.judge(segment))?;
    }
    let (mut analysis, own) = parts.finish();
    analysis.frames = read.frames;
    analysis.other_frames = read.others.all();
    analysis.given_up.fragments = decoder.fragments_given_up();
    if read.frames > 0 {
        (analysis.first_ns, analysis.last_ns) = read.times_ns;
    }
    Ok(Analysed { analysis, others: read.others, own })
}

#[inline]
fn decode(
    frames: &mut Chain<'_>,
    decoder: &mut Decoder,
    read: &mut Read,
    mut each: impl FnMut(&Segment),
) -> Result<(), Problem> {
    while let Some(frame) = frames.next()? {
        read.frame(&frame);
        match decoder.decode(&frame) {
            // By reference: loading a copy of fields that were just stored separately stalls.
            Decoded::Segment(ref segment) => each(segment),
            Decoded::Other(why) => read.others.add(why),
        }
    }
    Ok(())
}
