//! A collector that takes part in the one program inside the kernel: all that differs is what it wants and what it tells.

use crate::kernel::{Seen, Wants, Watch, probe};
use crate::reading::{Produces, all_absent};
use crate::{CollectContext, Collecting, Collector};
use holdup_model::{Availability, Collected, Meta, Problem, SelfCost};
use std::sync::Arc;

/// Such a collector.
#[derive(Clone, Copy)]
pub(crate) struct KernelCollector {
    pub(crate) meta: &'static Meta,
    pub(crate) produces: Produces,
    pub(crate) wants: Wants,
    /// What it tells of what was seen.
    pub(crate) told: fn(&Seen) -> Collected,
}

struct Running {
    collector: KernelCollector,
    watch: Arc<Watch>,
}

impl Collecting for Running {
    fn stop(self: Box<Self>) -> Collected {
        match self.watch.seen() {
            Ok(seen) => (self.collector.told)(&seen),
            Err(why) => all_absent(self.collector.meta.id, self.collector.produces, &why, SelfCost::default()),
        }
    }
}

impl Collector for KernelCollector {
    fn meta(&self) -> &'static Meta {
        self.meta
    }

    fn produces(&self) -> Produces {
        self.produces
    }

    fn is_default(&self) -> bool {
        false
    }

    fn wants(&self) -> Wants {
        self.wants
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        probe(&context.host)
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        let watch = context.watch(self.meta.id)?;
        Ok(Box::new(Running { collector: *self, watch }))
    }
}
