//! What `holdup check` looks at: read-only, without root, each thing with its source.

mod machine;
pub mod postgres;
mod probed;
mod settings;
mod slice_extension;

use crate::Host;
use crate::kernel::{self, KernelFacts};
use crate::postgres::PostgresControl;
use holdup_model::survey::Survey;
pub use probed::probe_into;

/// Everything. `asked` is a server that the user named, `control` a connection to one.
pub fn survey(host: &Host, asked: Option<&postgres::Asked>, control: Option<&dyn PostgresControl>) -> Survey {
    let facts = KernelFacts::of(host);
    let servers = postgres::servers(host, asked, control);
    let first = servers.get().and_then(|all| all.first()).and_then(|server| server.pid.value());
    Survey {
        kernel: kernel::kernel(host, &facts),
        preempt: kernel::preemption_of(host, &facts),
        settings: settings::settings(host, &facts),
        slice_extension: slice_extension::slice_extension(host, &facts),
        machine: machine::machine(host, first),
        memory: machine::memory(host),
        servers,
        probe: None,
    }
}
