//! `holdup kernels`: the kernels that guests boot, and what else their cache keeps.

mod beside;

use crate::progress::Progress;
use crate::{output, signals};
use beside::{Beside, Removal};
use clap::builder::{PossibleValue, PossibleValuesParser};
use holdup_kernels::{Available, Cache, Entry, Kernel, Options, Spec};
use holdup_model::{Event, Observer, Problem};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Fetch, build, list and remove the kernels that guests boot
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
SPEC: debian:7.0 (the newest 7.0.x), debian:6.19.14/cloud (a flavour),
debian:trixie (the newest of a suite), file:PATH, deb:PATH, rpm:PATH, host
(the running kernel), build:SOURCE,OPTION=y,… apt fetches and verifies
Debian's kernels from the archive that it is configured for; the system's apt
is not changed."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// The cache folder [default: $HOLDUP_CACHE or ~/.cache/holdup]
    #[arg(long, value_name = "DIR", global = true)]
    cache: Option<PathBuf>,
    /// Select kernels of this architecture [default: this machine's]
    #[arg(long, value_name = "ARCH", value_parser = architectures(), global = true)]
    arch: Option<String>,
    /// Include modules (160 MB in the normal flavour)
    #[arg(long, global = true)]
    modules: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List the cache, or the kernels that can be fetched
    List {
        /// List Debian's kernels that can be fetched, newest first
        #[arg(long)]
        available: bool,
        /// Print all rows, in full
        #[arg(long)]
        details: bool,
        #[command(flatten)]
        source: Source,
    },
    /// Fetch kernels into the cache
    Fetch {
        /// The kernels
        #[arg(value_name = "SPEC", required = true)]
        specs: Vec<String>,
        #[command(flatten)]
        source: Source,
    },
    /// Build kernels into the cache
    Build {
        /// SOURCE[,OPTION=VALUE][,patch=NAME][,config=NAME]
        #[arg(value_name = "SPEC", required = true)]
        specs: Vec<String>,
        #[command(flatten)]
        source: Source,
    },
    /// Remove kernels and other parts of the cache
    Rm {
        /// Kernels, postgres:MAJOR, or all of: build-folders, packages,
        /// images, templates
        #[arg(value_name = "SPEC", required = true)]
        specs: Vec<String>,
        /// Print no progress and no notes
        #[arg(short, long)]
        quiet: bool,
    },
    /// Print the path of a cached kernel's image
    Which {
        /// The kernels
        #[arg(value_name = "SPEC", required = true)]
        specs: Vec<String>,
    },
}

/// Where packages come from, and how the command talks.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Source {
    /// Fetch from this Debian archive
    #[arg(long, value_name = "URL")]
    pub(super) mirror: Option<String>,
    /// Use only the cache
    #[arg(long)]
    pub(super) offline: bool,
    /// Print no progress and no notes
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// Those that guests can have: in Debian's words, as in plans, or in those of `uname -m`.
fn architectures() -> PossibleValuesParser {
    let all = holdup_guest::arch::ALL.iter();
    PossibleValuesParser::new(all.map(|known| PossibleValue::new(known.id).alias(known.machine)))
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let root = args.cache.clone().unwrap_or_else(Cache::default_root);
    let cache = Cache::open(&root)?;
    let none = Source::default();
    let (source, quiet) = match &args.what {
        What::List { source, .. } | What::Fetch { source, .. } | What::Build { source, .. } => (source, source.quiet),
        What::Rm { quiet, .. } => (&none, *quiet),
        What::Which { .. } => (&none, true),
    };
    let options = Options {
        mirror: source.mirror.clone(),
        offline: source.offline,
        modules: args.modules,
        arch: match args.arch.as_deref().and_then(holdup_guest::arch::find) {
            Some(named) => named.machine.to_owned(),
            None => Options::default().arch,
        },
        cancel: Some(signals::cancel_on_signals()?.flag()),
    };
    let mut progress = Progress::new(quiet);
    let parse = |texts: &[String]| texts.iter().map(|text| Spec::parse(text)).collect::<Result<Vec<_>, Problem>>();
    match &args.what {
        What::List { available, details, .. } => {
            list(*available, *details, source.json, &cache, &options, &mut progress)?;
        }
        What::Fetch { specs, .. } => fetch(&parse(specs)?, source.json, &cache, &options, &mut progress)?,
        What::Build { specs, .. } => {
            // `build debian:7.2,RSEQ_SLICE_EXTENSION=y` means `build:debian:7.2,…`.
            let build = |text: &String| format!("build:{}", text.strip_prefix("build:").unwrap_or(text));
            fetch(&parse(&specs.iter().map(build).collect::<Vec<_>>())?, source.json, &cache, &options, &mut progress)?;
        }
        What::Rm { specs, .. } => remove(specs, &cache, &options, &mut progress)?,
        What::Which { specs } => which(&parse(specs)?, &cache, &options)?,
    }
    Ok(0)
}

fn list(
    available: bool,
    details: bool,
    as_json: bool,
    cache: &Cache,
    options: &Options,
    observer: &mut Progress,
) -> anyhow::Result<()> {
    let entries = cache.list()?;
    let damaged = cache.damaged()?;
    let beside = Beside::of(cache)?;
    let available = available.then(|| cache.available(options, observer)).transpose()?;
    observer.event(Event::End);
    if as_json {
        let mut document = json!({
            "schema": "holdup.kernels/1",
            "cache": cache.root(),
            "kernels": entries.iter().map(entry_json).collect::<Vec<_>>(),
            "damaged": damaged.iter().map(|(path, why)| json!({"path": path, "why": why})).collect::<Vec<_>>(),
            "available": available.map(|all| all.iter().map(available_json).collect::<Vec<_>>()),
        });
        beside.add_to(&mut document);
        output::data(&serde_json::to_string_pretty(&document)?)?;
        return Ok(());
    }
    let mut text = String::new();
    match &available {
        Some(available) => list_available(&mut text, available, &entries),
        None if entries.is_empty() => {
            let _infallible =
                writeln!(text, "no kernel in {}; holdup kernels fetch debian:7.0", cache.root().display());
        }
        None => entries.iter().for_each(|entry| list_entry(&mut text, entry)),
    }
    if available.is_none() {
        text.push_str(&beside.lines());
    }
    for (path, why) in &damaged {
        let _infallible = writeln!(text, "damaged: {}: {why}", path.display());
    }
    output::data(&holdup_report::list(&text, details))?;
    Ok(())
}

fn list_entry(text: &mut String, entry: &Entry) {
    let kernel = &entry.kernel;
    let megabytes = entry.bytes as f64 / 1e6;
    let _infallible =
        writeln!(text, "{:32} {:8} {megabytes:7.1} MB  {}", kernel.release, kernel.arch, entry.specs.join(" "));
    let _infallible = writeln!(text, "    {}", kernel.source);
}

fn list_available(text: &mut String, available: &[Available], entries: &[Entry]) {
    for kernel in available {
        let cached = entries.iter().any(|entry| entry.kernel.release == kernel.release);
        let mark = if cached { "  [cached]" } else { "" };
        let _infallible =
            writeln!(text, "{:24} {:32} {:24} {}{mark}", kernel.spec(), kernel.release, kernel.version, kernel.suite);
    }
}

fn kernel_json(kernel: &Kernel) -> Value {
    json!({
        "spec": kernel.spec, "release": kernel.release, "version_line": kernel.version_line, "arch": kernel.arch,
        "image": kernel.image, "sha256": kernel.sha256, "config": kernel.config, "modules": kernel.modules,
        "source": kernel.source,
    })
}

fn entry_json(entry: &Entry) -> Value {
    let mut value = kernel_json(&entry.kernel);
    value["specs"] = json!(entry.specs);
    value["size_bytes"] = json!(entry.bytes);
    value["fetched_unix_ns"] = json!(entry.fetched_unix_ns);
    value
}

fn available_json(kernel: &Available) -> Value {
    json!({
        "spec": kernel.spec(), "release": kernel.release, "version": kernel.version, "flavour": kernel.flavour,
        "suite": kernel.suite, "package": kernel.package,
    })
}

fn fetch(
    specs: &[Spec],
    as_json: bool,
    cache: &Cache,
    options: &Options,
    observer: &mut Progress,
) -> anyhow::Result<()> {
    let (mut kernels, mut failed) = (Vec::new(), None);
    for spec in specs {
        match cache.get(spec, options, observer) {
            Ok(kernel) => kernels.push(kernel),
            Err(problem) => {
                failed = Some(problem);
                break;
            }
        }
    }
    observer.event(Event::End);
    // Those before a failure are printed.
    if failed.is_none() || !kernels.is_empty() {
        print(as_json, cache, &kernels)?;
    }
    failed.map_or(Ok(()), |problem| Err(problem.into()))
}

fn print(as_json: bool, cache: &Cache, kernels: &[Kernel]) -> anyhow::Result<()> {
    if as_json {
        let kernels: Vec<Value> = kernels.iter().map(kernel_json).collect();
        let document = json!({"schema": "holdup.kernels/1", "cache": cache.root(), "kernels": kernels});
        output::data(&serde_json::to_string_pretty(&document)?)?;
        return Ok(());
    }
    let mut text = String::new();
    for kernel in kernels {
        let _infallible = writeln!(text, "{}: {} {}", kernel.spec, kernel.release, kernel.arch);
        let _infallible = writeln!(text, "    {}", kernel.source);
        let _infallible = writeln!(text, "    {}", kernel.image.display());
    }
    output::data(&text)?;
    Ok(())
}

fn remove(specs: &[String], cache: &Cache, options: &Options, observer: &mut Progress) -> anyhow::Result<()> {
    // All are read before the first is removed.
    let removals: Vec<Removal> = specs.iter().map(|text| Removal::parse(text)).collect::<Result<_, Problem>>()?;
    for removal in removals {
        let removed = removal.run(cache, options, observer)?;
        observer.event(Event::End);
        for (name, bytes) in removed {
            output::say(&format!("removed {name} ({:.1} MB)", bytes as f64 / 1e6));
        }
    }
    Ok(())
}

fn which(specs: &[Spec], cache: &Cache, options: &Options) -> anyhow::Result<()> {
    for spec in specs {
        let kernel = cache.which_for(spec, options)?.ok_or_else(|| {
            Problem::host(format!("kernel `{spec}`"), format!("the cache {} does not have it", cache.root().display()))
                .hint(format!("holdup kernels fetch {spec}"))
        })?;
        output::exact(&kernel.image.display().to_string())?;
    }
    Ok(())
}
