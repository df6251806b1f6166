//! `holdup calibrate`: what things cost on this host, as a machine file for simulations of it.

use crate::{output, signals};
use clap::ArgMatches;
use holdup_host::Host;
use holdup_target::{CalibrateRequest, Described, Known};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let path = |name| matches.get_one::<PathBuf>(name).cloned();
    let file = path("out").unwrap_or_else(|| holdup_host::state::machine_path().into());
    let quiet = matches.get_flag("quiet");
    let request = CalibrateRequest {
        host: &Host::real(),
        file: &file,
        workdir: path("workdir").unwrap_or_else(std::env::temp_dir),
        pg_bin: path("pg-bin"),
        cancel: signals::cancel_on_signals()?,
        step: &mut |name| {
            if !quiet {
                output::say(&format!("measuring {name}"));
            }
        },
    };
    let described = holdup_target::calibrate(request)?;
    output::data(&table(&file, &described))?;
    Ok(0)
}

/// What was written, and a line for each cost.
fn table(file: &Path, described: &Described) -> String {
    let assumed = described.parameters.iter().filter(|p| p.known == Known::Assumed).count();
    let t = described.machine.topology;
    let mut out = format!(
        "wrote {}: {} of {} costs measured, {assumed} assumed\n{}\ntopology: smt {} · cores {} · llcs {} · nodes {} ({})\n\n",
        file.display(),
        described.parameters.len() - assumed,
        described.parameters.len(),
        described.summary,
        t.smt,
        t.cores,
        t.llcs,
        t.nodes,
        described.topology_source,
    );
    let _infallible = writeln!(out, "{:<17} {:>9} {:>19}  source", "cost", "value", "range");
    for p in &described.parameters {
        let range = format!("{}–{}", p.range_ns.0, p.range_ns.1);
        let _infallible = writeln!(out, "{:<17} {:>9} {range:>19}  {}", p.name, p.value_ns, p.source);
    }
    out
}
