//! `holdup calibrate`: measures the costs of this host or of a guest into a machine file for the simulator.

use crate::cli::{GUESTS, GuestSource};
use crate::design::key_value;
use crate::progress::Progress;
use crate::world::World;
use crate::{output, signals};
use holdup_host::Host;
use holdup_load::PostgresOptions;
use holdup_model::{Plan, Problem};
use holdup_plan::Overrides;
use holdup_target::{BootCache, CalibrateRequest, Described, Provenance, SessionRequest};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Measure the costs of this host, or of a guest, for simulations
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Takes about a minute and changes nothing. Run it on an idle host:
other load widens the ranges. `--target sim` and `holdup predict` read the
file. With --kernel it measures in a guest that boots this kernel; with an
emulated CPU that takes some minutes.")]
pub(crate) struct Args {
    /// Write this machine file [default: this host's]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Measure file I/O in this folder [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    workdir: Option<PathBuf>,
    /// Measure the PostgreSQL whose programs are in this folder
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,
    /// Print no progress
    #[arg(short, long)]
    quiet: bool,
    /// Measure in a guest with this kernel: debian:6.19
    #[arg(long, requires = "out", conflicts_with_all = ["pg_bin", "workdir"], help_heading = GUESTS)]
    kernel: Option<String>,
    /// Set a property of the guest, such as guest.cpus=2
    #[arg(long, value_name = "KEY=V", value_parser = key_value, requires = "kernel", help_heading = GUESTS)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    source: GuestSource,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let file = args.out.clone().unwrap_or_else(|| holdup_host::state::machine_path().into());
    let quiet = args.quiet;
    let host = Host::real();
    if let Some(kernel) = &args.kernel {
        let plan = guest_with(args, &host, kernel)?;
        let request = SessionRequest {
            clients: None,
            host: &host,
            plan: &plan,
            schedule: &holdup_plan::schedule(&plan)?,
            postgres: &PostgresOptions::default(),
            workdir: std::env::temp_dir(),
            guests: &args.source.options(1),
            boot_cache: BootCache::default(),
            threads: None,
            ssh: &holdup_target::SshOptions::default(),
            cancel: signals::cancel_on_signals()?,
        };
        let described = holdup_target::calibrate_guest(&request, &file, &mut Progress::new(quiet))?;
        output::data(&table(&file, &described))?;
        return Ok(0);
    }
    let request = CalibrateRequest {
        host: &host,
        file: &file,
        workdir: args.workdir.clone().unwrap_or_else(std::env::temp_dir),
        pg_bin: args.pg_bin.clone(),
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

/// A plan for a guest that boots this kernel. Its workload never runs.
fn guest_with(args: &Args, host: &Host, kernel: &str) -> Result<Plan, Problem> {
    let mut set = vec![("kernel".to_owned(), kernel.replace(',', "\\,"))];
    if let Some((key, value)) = args.set.iter().find(|(key, _)| !key.starts_with("guest.")) {
        return Err(Problem::usage(format!("--set {key}={value}"), "only keys of the guest can be set here")
            .hint("for example --set guest.cpus=2"));
    }
    set.extend(args.set.iter().cloned());
    let overrides =
        Overrides { set, target: Some("qemu".to_owned()), accel: args.source.accel.clone(), ..Overrides::default() };
    let (plan, _) = World::here(host)
        .with(&overrides, |inputs| holdup_plan::from_command_line("lock-contention", &[], &[], &[], inputs))?;
    Ok(plan)
}

/// The name of the file and a line for each cost.
fn table(file: &Path, described: &Described) -> String {
    let assumed = described.parameters.iter().filter(|p| p.provenance == Provenance::Assumed).count();
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
