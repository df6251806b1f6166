//! `holdup postgres`: PostgreSQL servers that are built here, with patches.

use super::kernels::Source;
use crate::progress::Progress;
use crate::{output, signals};
use holdup_kernels::build::{self, CARRIED_SERVER, STOCK, ServerSpec, Tests};
use holdup_kernels::{BuiltServer, Cache, Options};
use holdup_model::{Event, Observer, Problem};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Build, list and remove PostgreSQL servers with patches
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
BUILD: stock, patches/NAME[,patches/NAME…] or PATH.patch. A plan has the same
words as levels of postgres.build, and the version in postgres.version. The
sources are Debian's; apt fetches and verifies them."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// The cache folder [default: $HOLDUP_CACHE or ~/.cache/holdup]
    #[arg(long, value_name = "DIR", global = true)]
    cache: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List the servers in the cache, and the patches that holdup has
    List {
        /// Print all rows, in full
        #[arg(long)]
        details: bool,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Build servers into the cache
    Build {
        /// The version of PostgreSQL, such as 18 or 18.6
        #[arg(value_name = "VERSION")]
        version: String,
        /// What is built [default: stock]
        #[arg(value_name = "BUILD")]
        builds: Vec<String>,
        /// Run PostgreSQL's regression and isolation tests too
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        source: Source,
    },
    /// Remove servers from the cache
    Rm {
        /// The version of PostgreSQL
        #[arg(value_name = "VERSION")]
        version: String,
        /// What was built [default: all, with source and objects]
        #[arg(value_name = "BUILD")]
        builds: Vec<String>,
        /// Print no progress and no notes
        #[arg(short, long)]
        quiet: bool,
    },
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let cache = Cache::open(&args.cache.clone().unwrap_or_else(Cache::default_root))?;
    let cancel = Some(signals::cancel_on_signals()?.flag());
    match &args.what {
        What::List { details, json } => list(&cache, *details, *json)?,
        What::Build { version, builds, check, source } => {
            let options =
                Options { mirror: source.mirror.clone(), offline: source.offline, cancel, ..Options::default() };
            let tests = if *check { Tests::Check } else { Tests::None };
            let mut progress = Progress::new(source.quiet);
            let servers = build_all(&specs(version, builds)?, tests, &cache, &options, &mut progress)?;
            print(&servers, source.json)?;
        }
        What::Rm { version, builds, quiet } => {
            let options = Options { cancel, ..Options::default() };
            remove(version, builds, &cache, &options, &mut Progress::new(*quiet))?;
        }
    }
    Ok(0)
}

fn specs(version: &str, builds: &[String]) -> Result<Vec<ServerSpec>, Problem> {
    if builds.is_empty() {
        return ServerSpec::parse(version, STOCK).map(|spec| vec![spec]);
    }
    builds.iter().map(|build| ServerSpec::parse(version, build)).collect()
}

fn build_all(
    specs: &[ServerSpec],
    tests: Tests,
    cache: &Cache,
    options: &Options,
    progress: &mut Progress,
) -> Result<Vec<BuiltServer>, Problem> {
    let built = specs.iter().map(|spec| build::server(spec, tests, cache, options, progress)).collect();
    progress.event(Event::End);
    built
}

fn list(cache: &Cache, details: bool, as_json: bool) -> anyhow::Result<()> {
    let (servers, damaged) = cache.built_servers()?;
    if as_json {
        let patches = CARRIED_SERVER
            .iter()
            .map(|patch| json!({"name": patch.name, "about": patch.about, "majors": patch.majors()}));
        let document = json!({
            "schema": "holdup.servers/1",
            "cache": cache.root(),
            "servers": servers.iter().map(server_json).collect::<Vec<_>>(),
            "damaged": damaged.iter().map(|(path, why)| json!({"path": path, "why": why})).collect::<Vec<_>>(),
            "patches": patches.collect::<Vec<_>>(),
        });
        output::data(&serde_json::to_string_pretty(&document)?)?;
        return Ok(());
    }
    let mut text = String::new();
    if servers.is_empty() {
        let _infallible = writeln!(text, "no server in {}; holdup postgres build 18", cache.root().display());
    }
    for server in &servers {
        let megabytes = server.bytes as f64 / 1e6;
        let _infallible = writeln!(text, "{:14} {megabytes:6.1} MB  {}", server.version, server.build);
    }
    for (path, why) in &damaged {
        let _infallible = writeln!(text, "damaged: {}: {why}", path.display());
    }
    for folder in build::folders(cache)?.iter().filter(|folder| folder.name.starts_with("postgresql-")) {
        let _infallible = writeln!(text, "{:14} {:6.1} MB  source and objects", folder.name, folder.bytes as f64 / 1e6);
    }
    text.push_str("patches:\n");
    for patch in CARRIED_SERVER {
        let majors: Vec<String> = patch.majors().iter().map(u32::to_string).collect();
        let _infallible = writeln!(text, "  patches/{:24} {}: {}", patch.name, majors.join(", "), patch.about);
    }
    output::data(&holdup_report::list(&text, details))?;
    Ok(())
}

fn server_json(server: &BuiltServer) -> Value {
    json!({
        "version": server.version, "build": server.build, "bin": server.bin(), "arch": server.arch,
        "source": server.source, "key": server.key, "size_bytes": server.bytes,
        "built_unix_ns": server.built_unix_ns,
    })
}

fn print(servers: &[BuiltServer], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let servers: Vec<Value> = servers.iter().map(server_json).collect();
        let document = json!({"schema": "holdup.servers/1", "servers": servers});
        output::data(&serde_json::to_string_pretty(&document)?)?;
        return Ok(());
    }
    let mut text = String::new();
    for server in servers {
        let _infallible =
            writeln!(text, "PostgreSQL {} {}: {:.1} MB", server.version, server.build, server.bytes as f64 / 1e6);
        let _infallible = writeln!(text, "    {}", server.source);
        let _infallible = writeln!(text, "    {}", server.bin().display());
    }
    output::data(&text)?;
    Ok(())
}

fn remove(
    version: &str,
    builds: &[String],
    cache: &Cache,
    options: &Options,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let wanted: Vec<String> = match builds.is_empty() {
        true => Vec::new(),
        false => specs(version, builds)?.iter().map(ServerSpec::build).collect(),
    };
    let is_of =
        |text: &str| text.strip_prefix(version).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
    let fits = |server: &BuiltServer| is_of(&server.version) && (wanted.is_empty() || wanted.contains(&server.build));
    let mut removed: Vec<(String, u64)> = cache
        .remove_servers(fits, options, progress)?
        .into_iter()
        .map(|server| (format!("PostgreSQL {} {}", server.version, server.build), server.bytes))
        .collect();
    for folder in build::folders(cache)?.into_iter().filter(|_| wanted.is_empty()) {
        let of = folder.name.strip_prefix("postgresql-").and_then(|rest| rest.split_once('_'));
        if of.is_some_and(|(major, whole)| major == version || is_of(whole)) && build::remove(cache, &folder.name)? {
            removed.push((format!("source and objects in {}", folder.name), folder.bytes));
        }
    }
    progress.event(Event::End);
    if removed.is_empty() {
        let why = format!("the cache {} has no such server", cache.root().display());
        return Err(Problem::usage(format!("PostgreSQL {version} {}", wanted.join(" ")), why)
            .hint("holdup postgres list")
            .into());
    }
    for (what, bytes) in removed {
        output::say(&format!("removed {what} ({:.1} MB)", bytes as f64 / 1e6));
    }
    Ok(())
}
