//! From the frames of a capture to what was counted of it.

mod parts;
mod result;
mod threads;

pub use result::{Analysis, Flows};

use crate::capture::{Chain, Frame, Frames};
use crate::decode::{self, Decoded, Decoder, Why};
use crate::rfc;
use crate::segment::Segment;
use crate::wireshark;
use holdup_model::Problem;
use holdup_model::text::count;
use parts::Parts;

/// The most threads that go through a capture together.
pub const MOST_THREADS: usize = 16;

/// What may be kept of a capture, and how it is gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Connections.
    pub flows: u32,
    /// How many threads go through it together, the calling one among them; at most [`MOST_THREADS`]. The outcome is the same to
    /// the last count.
    pub threads: usize,
    /// Whether our own judgement ([`rfc`]) is made beside Wireshark's.
    pub with_own: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { flows: wireshark::Limits::default().flows, threads: 1, with_own: false }
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

/// Reads a capture to its end, as Wireshark 4.6 judges it.
///
/// # Errors
/// As [`Frames::next`], and when there can be no thread.
pub fn analyse(frames: &mut Chain<'_>, options: &Options) -> Result<Analysed, Problem> {
    let mut parts = Parts::new(options);
    let mut decoder = Decoder::new(decode::Limits::default());
    let mut read = Read::default();
    if let Some(part) = parts.single() {
        decode(frames, &mut decoder, &mut read, |segment| part.judge(segment))?;
    } else {
        threads::go_through(frames, &mut decoder, &mut parts, &mut read)?;
        // What threads have left.
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

/// Hands every segment over.
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
            // By reference: a copy of what was just written in parts is waited for.
            Decoded::Segment(ref segment) => each(segment),
            Decoded::Other(why) => read.others.add(why),
        }
    }
    Ok(())
}
