//! Scheduler traces of other tools → the evidence that holdup's own collectors bring from the same events.
//!
//! Data flows one way: a reader of a format ([`Format`]) makes [`Event`]s of a file, in the order of their times; the [`account`] follows
//! each task and each CPU through them and makes windows of evidence; [`bundle`] makes a bundle of these. What a trace does
//! not show is absent, with the reason.
//!
//! Pure: bytes come in through [`Bytes`], nothing is opened here. Events are not kept: memory grows with the tasks of a trace, within a
//! budget, and not with the file.

#![forbid(unsafe_code)]

pub mod account;
mod bundle;
mod bytes;
mod compressed;
mod event;
mod format;
mod frames;
mod lines;
mod merge;
mod order;
mod perf_data;
mod perfetto;
mod replay;
mod ring;
mod schedviz;
mod text;
mod timehist;
mod trace_dat;

pub use bundle::{Trace, bundle};
pub use bytes::Bytes;
pub use event::{Event, Left, Name, TaskId, What};
pub use replay::{MOST_STEPS, MOST_TASKS, Reduction};

use bytes::File;
use holdup_model::stacks::Frame;
use holdup_model::{MemoryBudget, Problem};

/// Takes events one by one.
pub type Sink<'a> = &'a mut dyn FnMut(Event) -> Result<(), Problem>;

/// What a file says beside its events.
#[derive(Debug, Clone, Default)]
pub struct TraceHead {
    /// The format: `perf.data`, `trace.dat 7`.
    pub format: String,
    /// CPUs of the machine; 0 where it is not known.
    pub cpus: u32,
    /// The release of the kernel.
    pub kernel: Option<String>,
    /// The name of the host.
    pub host: Option<String>,
    /// What else is to be known.
    pub notes: Vec<String>,
    /// The functions that stacks of samples are made of.
    pub frames: Vec<Frame>,
}

/// A format of traces.
struct Format {
    is_it: fn(&[u8]) -> bool,
    read: fn(File<'_>, Sink<'_>) -> Result<TraceHead, Problem>,
}

static FORMATS: &[Format] = &[
    Format {
        is_it: |head| head.starts_with(perf_data::MAGIC) || head.starts_with(perf_data::MAGIC_BIG_ENDIAN),
        read: perf_data::read,
    },
    Format { is_it: |head| head.starts_with(trace_dat::MAGIC), read: trace_dat::read },
    Format { is_it: schedviz::is_it, read: schedviz::read },
    Format { is_it: timehist::is_it, read: timehist::read },
    Format { is_it: text::is_it, read: text::read },
    Format { is_it: perfetto::is_it, read: perfetto::read },
];

/// What is looked at of a file to see what it is, bytes.
const HEAD_BYTES: usize = 16 << 10;

/// Reads a trace, whichever format it has; its events go to `sink` in the order of their times. Events that wait for their place and
/// names of functions take memory of the budget.
///
/// # Errors
/// When it is of no format that is known, is damaged or cut (the place is a byte), takes more memory than there is, or of what `sink`
/// says.
pub fn read(name: &str, bytes: &dyn Bytes, budget: &MemoryBudget, sink: Sink<'_>) -> Result<TraceHead, Problem> {
    let file = File { bytes, name, budget };
    let mut head = vec![0; HEAD_BYTES];
    let length = file.fill(0, &mut head)?;
    head.truncate(length);
    let format = FORMATS.iter().find(|format| (format.is_it)(&head)).ok_or_else(|| {
        Problem::usage(name, "it is no trace that holdup knows")
            .hint("it reads perf.data, trace.dat, Perfetto, SchedViz, and the text of perf script, trace-cmd report and perf sched timehist")
    })?;
    let hint = || "is the file whole?".to_owned();
    let head = (format.read)(file, sink)
        .map_err(|problem| Problem { hint: problem.hint.or_else(|| Some(hint())), ..problem })?;
    budget.exceeded().map_or(Ok(head), |refused| Err(refused.of(name)))
}
