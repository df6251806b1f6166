//! `holdup kernels`: the kernels that guests boot, and what else their cache keeps.

mod beside;

use crate::progress::Progress;
use crate::{output, signals};
use beside::{Beside, Removal};
use clap::ArgMatches;
use holdup_kernels::{Available, Cache, Entry, Kernel, Options, Spec};
use holdup_model::{Event, Observer, Problem};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let (name, matches) = matches.subcommand().ok_or_else(|| anyhow::anyhow!("clap let no subcommand through"))?;
    let root = matches.get_one::<PathBuf>("cache").cloned().unwrap_or_else(Cache::default_root);
    let cache = Cache::open(&root)?;
    let options = options(matches)?;
    let mut progress = Progress::new(matches.try_get_one("quiet").ok().flatten().copied().unwrap_or(false));
    match name {
        "list" => list(matches, &cache, &options, &mut progress)?,
        "fetch" | "build" => fetch(matches, name, &cache, &options, &mut progress)?,
        "rm" => remove(matches, &cache, &options, &mut progress)?,
        "which" => which(matches, &cache, &options)?,
        other => anyhow::bail!("clap let an unknown command through: {other}"),
    }
    Ok(0)
}

fn options(matches: &ArgMatches) -> Result<Options, Problem> {
    let flag = |name| matches.try_get_one::<bool>(name).ok().flatten().copied().unwrap_or(false);
    let text = |name| matches.try_get_one::<String>(name).ok().flatten().cloned();
    Ok(Options {
        mirror: text("mirror"),
        offline: flag("offline"),
        modules: flag("modules"),
        arch: text("arch").unwrap_or_else(|| Options::default().arch),
        cancel: Some(signals::cancel_on_signals()?.flag()),
    })
}

fn specs(matches: &ArgMatches) -> Result<Vec<Spec>, Problem> {
    matches.get_many::<String>("spec").into_iter().flatten().map(|text| Spec::parse(text)).collect()
}

/// What is to be built: `build debian:7.2,RSEQ_SLICE_EXTENSION=y` need not say twice what it is.
fn builds(matches: &ArgMatches) -> Result<Vec<Spec>, Problem> {
    let texts = matches.get_many::<String>("spec").into_iter().flatten();
    texts.map(|text| Spec::parse(&format!("build:{}", text.strip_prefix("build:").unwrap_or(text)))).collect()
}

fn list(matches: &ArgMatches, cache: &Cache, options: &Options, observer: &mut Progress) -> anyhow::Result<()> {
    let entries = cache.list()?;
    let damaged = cache.damaged()?;
    let beside = Beside::of(cache)?;
    let available = match matches.get_flag("available") {
        true => Some(cache.available(options, observer)?),
        false => None,
    };
    observer.event(Event::End);
    if matches.get_flag("json") {
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
    output::data(&text)?;
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
    matches: &ArgMatches,
    name: &str,
    cache: &Cache,
    options: &Options,
    observer: &mut Progress,
) -> anyhow::Result<()> {
    let specs = if name == "build" { builds(matches)? } else { specs(matches)? };
    let (mut kernels, mut failed) = (Vec::new(), None);
    for spec in &specs {
        match cache.get(spec, options, observer) {
            Ok(kernel) => kernels.push(kernel),
            Err(problem) => {
                failed = Some(problem);
                break;
            }
        }
    }
    observer.event(Event::End);
    // Those that were had are told, whatever became of the next.
    if failed.is_none() || !kernels.is_empty() {
        tell(matches, cache, &kernels)?;
    }
    failed.map_or(Ok(()), |problem| Err(problem.into()))
}

fn tell(matches: &ArgMatches, cache: &Cache, kernels: &[Kernel]) -> anyhow::Result<()> {
    if matches.get_flag("json") {
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

fn remove(matches: &ArgMatches, cache: &Cache, options: &Options, observer: &mut Progress) -> anyhow::Result<()> {
    let texts = matches.get_many::<String>("spec").into_iter().flatten();
    // All are read before one is removed.
    let removals: Vec<Removal> = texts.map(|text| Removal::parse(text)).collect::<Result<_, Problem>>()?;
    for removal in removals {
        let removed = removal.run(cache, options, observer)?;
        observer.event(Event::End);
        for (name, bytes) in removed {
            output::say(&format!("removed {name} ({:.1} MB)", bytes as f64 / 1e6));
        }
    }
    Ok(())
}

fn which(matches: &ArgMatches, cache: &Cache, options: &Options) -> anyhow::Result<()> {
    for spec in specs(matches)? {
        let kernel = cache.which_for(&spec, options)?.ok_or_else(|| {
            Problem::host(format!("kernel `{spec}`"), format!("the cache {} does not have it", cache.root().display()))
                .hint(format!("holdup kernels fetch {spec}"))
        })?;
        output::exact(&kernel.image.display().to_string())?;
    }
    Ok(())
}
