//! `holdup exporter`: watches without an end, serves what it sees to Prometheus, and keeps flights.

mod targets;

use crate::cli::{bytes, check_window, duration};
use crate::design::{Sampling, Staying};
use crate::{output, signals};
use holdup_exporter::{Exposed, FlightOptions, Flights, Listen, Listener, Target, serve, textfile};
use holdup_host::{Host, heap};
use holdup_live::Trigger;
use holdup_model::Problem;
use holdup_watch::{Live, LiveRequest, live};
use signal_hook::consts::SIGUSR1;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a token file may have, bytes.
const TOKEN_BYTES: u64 = 4096;

/// Watch without an end and serve what is seen to Prometheus
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "holdup exporter [OPTIONS] <--pg <SERVER> | --comm <NAME> | --cgroup <PATH> | --pid <PID>>...",
    after_long_help = "\
Starts nothing and changes nothing. A server that is not there, or restarts, is
looked for every second. Without root some collectors are missing; each is
named with its reason. `holdup list metrics` has all names.

With --flights DIR the last minutes are kept in memory, and a trigger, SIGUSR1
or POST /-/flight (with the token, or as the user of the exporter) writes them as
a bundle. See docs/exporter.md.

Examples:
  holdup exporter --pg auto
  holdup exporter --pg auto --flights /var/lib/holdup \\
      --trigger 'share(preempted-holder) > 5% for 30s'

Exit codes:
  0  ended by a signal
  2  wrong command line
  3  the port is taken, or a file cannot be used"
)]
pub(crate) struct Args {
    /// Watch this PostgreSQL server: auto, its PID or a URL (repeatable)
    #[arg(long, value_name = "SERVER")]
    pg: Vec<String>,
    /// Watch the processes of this name and their descendants (repeatable)
    #[arg(long, value_name = "NAME")]
    comm: Vec<String>,
    /// Watch all processes of this control group (repeatable)
    #[arg(long, value_name = "PATH")]
    cgroup: Vec<String>,
    /// Watch this process and its descendants (repeatable)
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Serve on this address and port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9918")]
    listen: SocketAddr,
    /// Ask clients for the bearer token in this file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve with TLS: the certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Serve with TLS: the certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Write this file for node_exporter instead of serving
    #[arg(long, value_name = "FILE.prom", conflicts_with_all = ["token_file", "tls_cert"])]
    textfile: Option<PathBuf>,
    /// The length of a window
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    window: Duration,
    /// Run these collectors [default: those that explain, but cpu-profile]
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    collect: Option<Vec<String>>,
    /// At most N series of a metric; the rest are one, `other`
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    series: u32,
    /// Keep bundles of the flight recorder in this folder
    #[arg(long, value_name = "DIR")]
    flights: Option<PathBuf>,
    /// Write a bundle when this begins to hold (repeatable)
    #[arg(long, value_name = "CONDITION", requires = "flights")]
    trigger: Vec<String>,
    /// How much of the time before the trigger a bundle has
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration, requires = "flights")]
    before: Duration,
    /// How much of the time after it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, requires = "flights")]
    after: Duration,
    /// The least time between two bundles
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration, requires = "flights")]
    every: Duration,
    /// What all bundles have at most; the oldest go
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = bytes, requires = "flights")]
    keep: u64,
    /// Memory for the windows that are kept
    #[arg(long, value_name = "SIZE", default_value = "64MB", value_parser = bytes)]
    memory: u64,
    #[command(flatten)]
    sampling: Sampling,
    #[command(flatten)]
    live: Staying,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    heap::share_one();
    let host = Host::real();
    check_window(args.window)?;
    let watched = targets::of(args)?;
    let targets: Vec<Arc<Target>> =
        watched.iter().map(|one| target(args, one, watched.len())).collect::<Result<_, _>>()?;
    let exposed = Arc::new(Exposed::new(host.clone(), targets.clone()));
    let listener = listener(args)?;
    let cancel = signals::cancel_on_signals_but(&[SIGUSR1])?;
    let asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, asked.clone())
        .map_err(|e| Problem::internal("signal handler", e.to_string()))?;
    if let Some(listener) = listener {
        say_where(args, &listener);
        let exposed = exposed.clone();
        std::thread::Builder::new()
            .name("holdup-http".to_owned())
            .spawn(move || serve(listener, exposed))
            .map_err(|e| Problem::internal("the HTTP server", e.to_string()))?;
    }
    let maps = super::maps();
    let watch_one = |one: &targets::Target, target: &Target| {
        let request = LiveRequest {
            host: &host,
            find: &|| one.how.find(&host),
            is_patient: true,
            window: args.window,
            collectors: &one.collectors,
            has_stacks: &|| false,
            options: args.live.options(&args.sampling),
            maps: maps.clone(),
            command: std::env::args().collect(),
            cancel: cancel.clone(),
        };
        let ended = live(&request, &mut |event| take(target, event));
        // One that cannot watch ends them all: the manager of the service starts it again.
        cancel.cancel();
        ended
    };
    let failed = std::thread::scope(|scope| {
        let pairs = watched.iter().zip(&targets);
        let watching: Vec<_> = pairs.map(|(one, target)| scope.spawn(|| watch_one(one, target))).collect();
        between(args, &exposed, &asked, &cancel);
        let ended = watching.into_iter().map(std::thread::ScopedJoinHandle::join);
        let ended =
            ended.map(|ended| ended.unwrap_or_else(|_| Err(Problem::internal("watching", "a thread panicked"))));
        ended.filter_map(Result::err).next()
    });
    targets.iter().flat_map(|target| target.end()).for_each(|line| output::say(&line));
    failed.map_or(Ok(0), |problem| Err(problem.into()))
}

fn take(target: &Target, event: Live) {
    target.take(event).iter().for_each(|line| output::say(line));
}

/// Until it ends: flights that a signal asks for, and the text file once for each window.
fn between(args: &Args, exposed: &Exposed, asked: &AtomicBool, cancel: &holdup_load::Cancel) {
    let mut next = Instant::now() + args.window;
    let mut said = None;
    while !cancel.is_cancelled() {
        std::thread::sleep(Duration::from_millis(100));
        if asked.swap(false, Ordering::SeqCst) {
            let now = holdup_watch::unix_ns();
            exposed.targets().iter().flat_map(|t| t.trigger(now, "SIGUSR1")).for_each(|line| output::say(&line));
        }
        if let Some(path) = args.textfile.as_ref().filter(|_| Instant::now() >= next) {
            next = Instant::now() + args.window;
            let problem =
                textfile::write(exposed, path).err().map(|problem| format!("{}: {}", problem.what, problem.why));
            // A full disk is said once, and not every five seconds.
            if problem != said {
                problem.iter().for_each(|line| output::say(line));
                said = problem;
            }
        }
    }
}

fn target(args: &Args, one: &targets::Target, all: usize) -> Result<Arc<Target>, Problem> {
    let flights = match &args.flights {
        None => None,
        Some(folder) => {
            let triggers = args.trigger.iter().map(|text| Trigger::parse(text)).collect::<Result<_, _>>()?;
            folder_of_flights(folder).map_err(|e| Problem::host(folder.display().to_string(), e.to_string()))?;
            let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            let options = FlightOptions {
                folder: folder.clone(),
                triggers,
                before_ns: ns(args.before),
                after_ns: ns(args.after),
                every_ns: ns(args.every),
                keep_bytes: args.keep,
            };
            let name = if all > 1 { one.name.clone() } else { String::new() };
            Some(Flights::new(options, name))
        }
    };
    let memory = usize::try_from(args.memory).unwrap_or(usize::MAX) / all.max(1);
    Ok(Arc::new(Target::new(&one.name, memory, usize::try_from(args.series).unwrap_or(100), flights)))
}

/// One that is there must be ours, because old flights in it are removed; one that is made is closed to other users.
fn folder_of_flights(path: &Path) -> std::io::Result<()> {
    match holdup_files::Folder::open_own(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            holdup_files::private_folder(&std::path::absolute(path)?).map(drop)
        }
        opened => opened.map(drop),
    }
}

fn listener(args: &Args) -> Result<Option<Listener>, Problem> {
    if args.textfile.is_some() {
        return Ok(None);
    }
    let token = args.token_file.as_ref().map(|path| {
        let problem = |why: String| Problem::usage(path.display().to_string(), why);
        let bytes = holdup_files::read_input(path, TOKEN_BYTES).map_err(|e| problem(e.to_string()))?;
        let token = String::from_utf8_lossy(&bytes).trim().to_owned();
        if token.is_empty() { Err(problem("there is no token in it".to_owned())) } else { Ok(token) }
    });
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    Listener::open(&Listen { address: args.listen, token: token.transpose()?, tls }).map(Some)
}

fn say_where(args: &Args, listener: &Listener) {
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let address = listener.address().unwrap_or(args.listen);
    output::say(&format!("metrics: {scheme}://{address}/metrics"));
    if address.ip().is_loopback() {
        return;
    }
    if args.token_file.is_none() {
        output::say("warning: who can reach this port may read all of it: --token-file FILE asks for a token");
    } else if args.tls_cert.is_none() {
        output::say("warning: the token goes over the network in the clear: --tls-cert and --tls-key");
    }
}
