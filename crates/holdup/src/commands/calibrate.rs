//! `holdup calibrate`: what things cost on this host or in a guest, as a machine file for simulations of it.

use super::run;
use crate::progress::Progress;
use crate::world::World;
use crate::{output, signals};
use clap::ArgMatches;
use holdup_host::Host;
use holdup_model::{Plan, Problem};
use holdup_plan::Overrides;
use holdup_target::{CalibrateRequest, Described, Kept, Known, SessionRequest};
use holdup_workloads::PostgresOptions;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let path = |name| matches.get_one::<PathBuf>(name).cloned();
    let file = path("out").unwrap_or_else(|| holdup_host::state::machine_path().into());
    let quiet = matches.get_flag("quiet");
    let host = Host::real();
    if let Some(kernel) = matches.get_one::<String>("kernel") {
        let plan = guest_with(matches, &host, kernel)?;
        let request = SessionRequest {
            host: &host,
            plan: &plan,
            schedule: &holdup_plan::schedule(&plan)?,
            postgres: &PostgresOptions::default(),
            workdir: std::env::temp_dir(),
            guests: &run::guests(matches),
            kept: Kept::default(),
            cancel: signals::cancel_on_signals()?,
        };
        let described = holdup_target::calibrate_guest(&request, &file, &mut Progress::new(quiet))?;
        output::data(&table(&file, &described))?;
        return Ok(0);
    }
    let request = CalibrateRequest {
        host: &host,
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

/// A plan for a guest that boots this kernel. What it would run there is never run.
fn guest_with(matches: &ArgMatches, host: &Host, kernel: &str) -> Result<Plan, Problem> {
    let mut set = vec![("kernel".to_owned(), kernel.replace(',', "\\,"))];
    for text in matches.get_many::<String>("set").into_iter().flatten() {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        if !key.starts_with("guest.") {
            return Err(Problem::usage(format!("--set {text}"), "only the guest's own keys count here")
                .hint("for example --set guest.cpus=2"));
        }
        set.push((key.to_owned(), value.to_owned()));
    }
    let overrides = Overrides {
        set,
        target: Some("qemu".to_owned()),
        accel: matches.get_one::<String>("accel").cloned(),
        ..Overrides::default()
    };
    let (plan, _) = World::here(host)
        .with(&overrides, |inputs| holdup_plan::from_command_line("lock-contention", &[], None, &[], inputs))?;
    Ok(plan)
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
