//! What `holdup check` looks at: read-only, without root, each thing with its source.

mod kernel;
mod machine;
pub mod postgres;
mod preempt;
mod probed;
mod settings;
mod slice_extension;

use crate::Host;
use crate::postgres::PostgresControl;
use holdup_model::survey::{Known, Preemption, Survey};
use kernel::Ground;
pub use probed::probe_into;

/// Everything. `asked` is a server that the user named, `control` a connection to one.
pub fn survey(host: &Host, asked: Option<&postgres::Asked>, control: Option<&dyn PostgresControl>) -> Survey {
    let ground = Ground::of(host);
    let servers = postgres::servers(host, asked, control);
    let first = servers.get().and_then(|all| all.first()).and_then(|server| server.pid.value());
    Survey {
        kernel: kernel::kernel(host, &ground),
        preempt: preempt::preemption(host, &ground),
        settings: settings::settings(host, &ground),
        slice_extension: slice_extension::slice_extension(host, &ground),
        machine: machine::machine(host, first),
        memory: machine::memory(host),
        servers,
        probe: None,
    }
}

/// The preemption model alone.
pub(crate) fn preemption(host: &Host) -> Preemption {
    preempt::preemption(host, &Ground::of(host))
}

/// A file of one line, without the white space around it; empty and garbled ones are not known.
fn one_line(host: &Host, path: &str) -> Known<String> {
    // No such file is longer; a hostile tree may hold anything.
    const LONGEST: usize = 64 * 1024;
    match host.read_head_bytes(path, LONGEST) {
        Err(e) => Known::unknown(path, e.message),
        Ok(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) if text.trim().is_empty() => Known::unknown(path, "the file is empty"),
            Ok(text) => Known::found(text.trim().to_owned(), path),
            Err(e) => Known::unknown(path, format!("byte {} is not UTF-8", e.valid_up_to())),
        },
    }
}

/// Foreign words as they may be printed: at most 120 characters, without control characters.
pub(crate) fn shown(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.chars().count() <= 120 { clean } else { clean.chars().take(119).chain(['…']).collect() }
}
