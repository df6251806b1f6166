//! Readings at the two edges of a window, and what they cost.

pub(crate) use crate::Produces;
use crate::{About, CollectContext, Collecting, Collector, Continuous};
use holdup_host::Host;
use holdup_model::{
    Availability, Collected, Coverage, EvidenceHistogram, EvidenceItem, Meta, Problem, SelfCost, SparseHistogram,
};
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
    clock_ns(ClockId::ThreadCPUTime)
}

/// Now, on the clock of bpf_ktime_get_ns.
pub(crate) fn now_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
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

/// What a window added, by two readings.
#[derive(Debug, Default)]
pub(crate) struct WindowStats {
    pub(crate) items: Vec<EvidenceItem>,
    pub(crate) notes: Vec<String>,
    /// Tasks or sources whose numbers are missing.
    pub(crate) lost: u64,
}

/// A collector that reads a source `S` at both edges of the window and reports the difference of two readings `R`.
pub(crate) struct TwoReadings<S, R> {
    pub(crate) meta: &'static Meta,
    pub(crate) produces: Produces,
    pub(crate) probe: fn(&CollectContext) -> Result<(), String>,
    /// How to get the source, when the first reading failed.
    pub(crate) remedy: Option<&'static str>,
    pub(crate) open: fn(&CollectContext) -> Result<S, String>,
    pub(crate) read: fn(&S, &mut Reader<'_>) -> Result<R, String>,
    /// The duration lies between the two readings.
    pub(crate) compare: fn(&R, &R, Duration) -> WindowStats,
}

/// The source of collectors that need no more than the host.
pub(crate) fn host_only(_: &CollectContext) -> Result<(), String> {
    Ok(())
}

struct Running<S: 'static, R: 'static> {
    collector: &'static TwoReadings<S, R>,
    host: Host,
    source: S,
    before: R,
    begun: Instant,
    meter: Meter,
}

impl<S: Send + 'static, R: Send + 'static> Continuous for Running<S, R> {
    fn cut(&mut self) -> Collected {
        let &TwoReadings { meta, produces, read, compare, .. } = self.collector;
        let mut meter = std::mem::take(&mut self.meter);
        let elapsed = self.begun.elapsed();
        match meter.spend(&self.host, |reader| read(&self.source, reader)) {
            Ok(after) => {
                let WindowStats { items, notes, lost } = compare(&self.before, &after, elapsed);
                (self.before, self.begun) = (after, self.begun + elapsed);
                Collected {
                    collector: meta.id.to_owned(),
                    items,
                    coverage: Coverage { seen: 2, lost, notes },
                    cost: meter.0,
                    ..Collected::default()
                }
            }
            Err(why) => all_absent(meta.id, produces, &why, meter.0),
        }
    }
}

impl<S: Send + 'static, R: Send + 'static> Collecting for Running<S, R> {
    fn continuous(&mut self) -> Option<&mut dyn Continuous> {
        Some(self)
    }

    fn stop(mut self: Box<Self>) -> Collected {
        self.cut()
    }
}

impl<S: Send + 'static, R: Send + 'static> Collector for &'static TwoReadings<S, R> {
    fn about(&self) -> About {
        About { is_default: true, ..About::of(self.meta, self.produces) }
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        match ((self.probe)(context), self.remedy) {
            (Ok(()), _) => Availability::Ready,
            (Err(why), Some(remedy)) => Availability::unavailable_but(why, remedy),
            (Err(why), None) => Availability::unavailable(why),
        }
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        let failed = |why| Problem::host(format!("collector {}", self.meta.id), why);
        let mut meter = Meter::default();
        let source = (self.open)(context).map_err(failed)?;
        let before = meter.spend(&context.host, |reader| (self.read)(&source, reader)).map_err(failed)?;
        let host = context.host.clone();
        Ok(Box::new(Running { collector: self, host, source, before, begun: Instant::now(), meter }))
    }
}

/// Everything that a collector would have brought, absent with one reason.
pub(crate) fn all_absent(id: &str, produces: Produces, why: &str, cost: SelfCost) -> Collected {
    Collected { cost, ..Collected::absent(id, produces, why) }
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
