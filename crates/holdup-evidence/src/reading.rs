//! Readings at the two edges of a window, and what they cost.

use crate::Collecting;
use holdup_host::Host;
use holdup_model::{Collected, Coverage, EvidenceHistogram, EvidenceItem, SelfCost, SparseHistogram};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Reads through the host and counts bytes.
pub(crate) struct Reader<'a> {
    host: &'a Host,
    bytes: u64,
}

impl Reader<'_> {
    /// A file as text, or why it cannot be read.
    pub(crate) fn text(&mut self, path: &str) -> Result<String, String> {
        let text = self.host.read_text(path).map_err(|e| e.to_string())?;
        self.bytes += text.len() as u64;
        Ok(text)
    }

    /// The names in a folder.
    pub(crate) fn list(&mut self, path: &str) -> Result<Vec<String>, String> {
        self.host.list(path).map_err(|e| e.to_string())
    }
}

/// What one collector's own code cost so far.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Meter(pub(crate) SelfCost);

/// CPU time of this thread, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

impl Meter {
    /// Does some work of the collector and counts what it cost.
    pub(crate) fn spend<T>(&mut self, host: &Host, work: impl FnOnce(&mut Reader<'_>) -> T) -> T {
        let begun = thread_cpu_ns();
        let mut reader = Reader { host, bytes: 0 };
        let result = work(&mut reader);
        self.0.cpu_ns += thread_cpu_ns().saturating_sub(begun);
        self.0.wakeups += 1;
        self.0.bytes += reader.bytes;
        result
    }
}

/// What a comparison of two readings says.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) items: Vec<EvidenceItem>,
    pub(crate) notes: Vec<String>,
    /// Tasks or sources whose numbers are known to be missing.
    pub(crate) lost: u64,
}

/// A collector that reads at the window's begin and end and tells the difference.
pub(crate) trait TwoReadings: Send + 'static {
    /// What one reading holds.
    type Reading: Send;
    /// Reads once.
    fn read(&self, reader: &mut Reader<'_>) -> Result<Self::Reading, String>;
    /// Tells the difference; `elapsed` lies between the two readings.
    fn compare(&self, before: &Self::Reading, after: &Self::Reading, elapsed: Duration) -> Seen;
}

/// Names, units and meanings of what a collector brings.
pub(crate) type Produces = &'static [(&'static str, &'static str, &'static str)];

struct Running<T: TwoReadings> {
    id: &'static str,
    produces: Produces,
    host: Host,
    what: T,
    before: T::Reading,
    begun: Instant,
    meter: Meter,
}

/// Takes the first reading.
///
/// # Errors
/// Why the source cannot be read.
pub(crate) fn start<T: TwoReadings>(
    id: &'static str,
    produces: Produces,
    host: &Host,
    what: T,
) -> Result<Box<dyn Collecting>, String> {
    let mut meter = Meter::default();
    let before = meter.spend(host, |reader| what.read(reader))?;
    Ok(Box::new(Running { id, produces, host: host.clone(), what, before, begun: Instant::now(), meter }))
}

impl<T: TwoReadings> Collecting for Running<T> {
    fn stop(mut self: Box<Self>) -> Collected {
        let elapsed = self.begun.elapsed();
        let after = {
            let what = &self.what;
            self.meter.spend(&self.host, |reader| what.read(reader))
        };
        match after {
            Ok(after) => {
                let seen = self.what.compare(&self.before, &after, elapsed);
                Collected {
                    collector: self.id.to_owned(),
                    items: seen.items,
                    coverage: Coverage { seen: 2, lost: seen.lost, notes: seen.notes },
                    cost: self.meter.0,
                    ..Collected::default()
                }
            }
            Err(why) => all_absent(self.id, self.produces, &why, self.meter.0),
        }
    }
}

/// Everything that a collector would have brought, absent with one reason.
pub(crate) fn all_absent(id: &str, produces: Produces, why: &str, cost: SelfCost) -> Collected {
    Collected {
        collector: id.to_owned(),
        items: produces.iter().map(|(name, unit, _)| EvidenceItem::absent(*name, *unit, why)).collect(),
        coverage: Coverage { seen: 0, lost: 0, notes: vec![why.to_owned()] },
        cost,
        ..Collected::default()
    }
}

/// A histogram as evidence, where there is one with values.
pub(crate) fn histogram(
    name: &str,
    label: impl Into<String>,
    histogram: Option<&SparseHistogram>,
) -> Option<EvidenceHistogram> {
    let histogram = histogram.filter(|h| h.count() > 0)?.clone();
    Some(EvidenceHistogram { name: name.to_owned(), label: Some(label.into()), histogram })
}

/// The increase of a counter; `None` when it ran backwards, which a counter of the kernel only does when it is
/// not the same counter any more.
pub(crate) fn increase(before: u64, after: u64) -> Option<u64> {
    after.checked_sub(before)
}
