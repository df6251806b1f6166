//! What all scrapes read: the targets, rendered once for each window and format.

use crate::own;
use crate::target::Target;
use holdup_host::Host;
use holdup_live::{Counters, Format, render};
use hyper::body::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

/// A rendering, and the generations of the targets that it is of.
struct Rendered {
    format: Format,
    of: Vec<u64>,
    bytes: Bytes,
}

/// The targets of an exporter.
pub struct Exposed {
    host: Host,
    targets: Vec<Arc<Target>>,
    /// The last rendering in each format: ten thousand scrapes between two windows render once.
    rendered: Mutex<Vec<Rendered>>,
}

impl Exposed {
    /// All that is served.
    pub fn new(host: Host, targets: Vec<Arc<Target>>) -> Self {
        Exposed { host, targets, rendered: Mutex::new(Vec::new()) }
    }

    /// What is watched.
    pub fn targets(&self) -> &[Arc<Target>] {
        &self.targets
    }

    /// The sums of all targets as they are now.
    pub fn render(&self, format: Format) -> Bytes {
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        let of: Vec<u64> = self.targets.iter().map(|target| target.state().generation).collect();
        if let Some(known) = rendered.iter().find(|known| known.format == format && known.of == of) {
            return known.bytes.clone();
        }
        let bytes = Bytes::from(self.fresh(format));
        rendered.retain(|known| known.format != format);
        rendered.push(Rendered { format, of, bytes: bytes.clone() });
        bytes
    }

    fn fresh(&self, format: Format) -> Vec<u8> {
        let targets: Vec<&Target> = self.targets.iter().map(|target| &**target).collect();
        let own = own::of(&targets, &self.host);
        let states: Vec<_> = targets.iter().map(|target| target.state()).collect();
        let counters: Vec<&Counters> = states.iter().map(|state| &state.counters).collect();
        render(&counters, &own, format)
    }
}
