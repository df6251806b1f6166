//! A collector whose evidence comes from BPF alone: it differs from others in its part and in what it reports.

use crate::kernel::{Part, Watch, WindowCounts, cost, coverage, probe};
use crate::reading::{Produces, all_absent, thread_cpu_ns};
use crate::{About, CollectContext, Collecting, Collector, Continuous};
use holdup_model::{Availability, Collected, Meta, Problem, SelfCost};
use std::sync::Arc;
#[derive(Clone, Copy)]
pub(crate) struct KernelCollector {
    pub(crate) meta: &'static Meta,
    pub(crate) produces: Produces,
    pub(crate) part: &'static Part,
    /// Adds its evidence of a window and gives the number of events behind it.
    pub(crate) report: fn(&WindowCounts, &mut Collected) -> Result<u64, String>,
}

struct Running {
    collector: KernelCollector,
    windows: Windows,
}

/// The windows of a watch, as one of its collectors goes through them.
pub(crate) struct Windows {
    watch: Arc<Watch>,
    /// Those that have ended.
    ended: u32,
}

impl Windows {
    pub(crate) fn of(watch: Arc<Watch>) -> Self {
        Windows { watch, ended: 0 }
    }

    /// Has the window end now. Its counts, or the reason that there are none, are the next answer.
    pub(crate) fn edge(&self) {
        drop(self.watch.window(self.ended + 1));
    }

    /// The counts of the window, which ends now unless it has ended.
    pub(crate) fn next(&mut self) -> Result<Arc<WindowCounts>, String> {
        self.ended += 1;
        self.watch.window(self.ended)
    }
}

impl Running {
    fn collect(&self, counts: &WindowCounts) -> Collected {
        let KernelCollector { meta, produces, report, .. } = self.collector;
        let begun = thread_cpu_ns();
        let mut collected = Collected { collector: meta.id.to_owned(), ..Collected::default() };
        match report(counts, &mut collected) {
            Ok(events) => {
                let mut coverage = coverage(counts, events);
                coverage.lost += collected.coverage.lost;
                coverage.notes.append(&mut collected.coverage.notes);
                collected.coverage = coverage;
            }
            Err(why) => collected = all_absent(meta.id, produces, &why, SelfCost::default()),
        }
        collected.cost = cost(counts, &mut collected.coverage);
        collected.cost.cpu_ns += thread_cpu_ns().saturating_sub(begun);
        collected
    }
}

impl Continuous for Running {
    fn edge(&mut self) {
        self.windows.edge();
    }

    fn cut(&mut self) -> Collected {
        match self.windows.next() {
            Ok(counts) => self.collect(&counts),
            Err(why) => all_absent(self.collector.meta.id, self.collector.produces, &why, SelfCost::default()),
        }
    }
}

impl Collecting for Running {
    fn continuous(&mut self) -> Option<&mut dyn Continuous> {
        Some(self)
    }

    fn stop(mut self: Box<Self>) -> Collected {
        self.cut()
    }
}

impl Collector for KernelCollector {
    fn about(&self) -> About {
        About { part: Some(self.part), ..About::of(self.meta, self.produces) }
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        probe(&context.host)
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        Ok(Box::new(Running { collector: *self, windows: Windows::of(context.watch(self)?) }))
    }
}
