//! What `holdup check` reads on a host: read-only, without root, each thing with its source or the reason why it is not known.
//!
//! [`survey()`] fills a `holdup_model::survey::Survey`: the scheduler's settings (`settings.rs`), the time slice extension,
//! the machine, and every PostgreSQL server with its files, memory and clients ([`postgres`]); [`probe_into`] adds what
//! the behavioural [`probe`] measures of the preemption model.
//!
//! Not here: how files of a host are read and the chain of sources for the preemption model (`holdup-host`), what a
//! survey means (the cases of `holdup-analysis`), and how it is printed (`holdup-report`).
//!
//! Start with [`survey()`], then `postgres/mod.rs`.

mod machine;
pub mod postgres;
pub mod probe;
mod probed;
mod settings;
mod slice_extension;

use holdup_host::Host;
use holdup_host::kernel::{self, KernelFacts};
use holdup_host::postgres::PostgresControl;
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
