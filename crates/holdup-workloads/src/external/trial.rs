//! A trial: server, tool, counters, and what comes of them.

use crate::command::arguments::c_string;
use crate::command::background::BackgroundProcess;
use crate::command::spawn::Program;
use crate::command::supervise::{self, Completed, Exit, Watch};
use crate::external::metrics;
use crate::external::setup::Setup;
use crate::external::snmp::{self, Udp};
use crate::external::{Invocation, Listens, Reading, Run, Server, ToolOutput};
use holdup_host::Host;
use holdup_load::placement::Placement;
use holdup_load::{Cancel, TrialContext, TrialResult};
use holdup_model::{Measurement, Problem};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::MemfdFlags;
use rustix::process::Signal;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes kept of stdout and of stderr: sockperf logs 45 bytes for each round trip.
const KEPT: (usize, usize) = (16 << 20, 256 << 20);
/// Bytes kept of each stream of a server.
const KEPT_SERVER: usize = 1 << 20;
/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(10);
/// How much longer than its duration a tool may run.
const SLACK: Duration = Duration::from_secs(60);
/// How long queues may take to become empty after the client has ended, and how long nothing must happen for that.
const DRAIN: Duration = Duration::from_secs(2);
const STILL: Duration = Duration::from_millis(50);
/// How long a server may take to wait for its children.
const REAP: Duration = Duration::from_secs(5);

/// Runs a tool once.
pub(crate) fn run(setup: &Setup, file: &Path, host: &Host, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
    let about = setup.tool.about();
    let run = Run { duration_ns: trial.duration_ns, port: free_port()? };
    let mut invocation = setup.tool.invocation(setup, &run)?;
    let profile = invocation.profile.take().map(|text| memory_file(&text)).transpose()?;
    if let Some(profile) = &profile {
        // The tool opens it through holdup's own descriptor, so that there is no file that could be left behind.
        let path = format!("/proc/{}/fd/{}", std::process::id(), profile.as_raw_fd());
        invocation.arguments.iter_mut().for_each(|a| *a = a.replace("{profile}", &path));
    }
    let (server_cpus, client_cpus) = cpus(setup, host, invocation.server.is_some())?;
    let server = match &invocation.server {
        Some(server) => {
            Some(listening(server, &run, about.program, file, host, server_cpus.as_deref(), &trial.cancel)?)
        }
        None => None,
    };
    let program = program(file, about.program, &invocation.arguments)?;
    let longest = Duration::from_nanos(trial.duration_ns) * 2 + SLACK;
    let watch = Watch {
        timeout: (!invocation.fixed_work).then_some(longest),
        cancel: &trial.cancel,
        enough: &trial.enough,
        host,
        kept: KEPT,
        cpus: client_cpus.as_deref(),
        server: server.as_ref().map(BackgroundProcess::pid),
    };
    let before = invocation.counts_udp.then(|| snmp::read(host));
    let mut ended = supervise::run(&program, &watch, trial.window, about.program)?;
    let udp = before.map(|before| drained(host, before, &trial.cancel));
    let mut server_said = match server {
        Some(server) => {
            if invocation.server.as_ref().is_some_and(|s| s.forks) {
                server.wait_for_children(host, &trial.cancel, REAP);
            }
            Some(server.end(Signal::INT)?)
        }
        None => None,
    };
    let server_text = server_said.as_mut().map(|s| String::from_utf8_lossy(s.stdout.whole_lines()).into_owned());
    judge(about.program, &mut ended, longest)?;
    let reading = {
        let stdout = String::from_utf8_lossy(ended.stdout.whole_lines());
        let stderr = String::from_utf8_lossy(ended.stderr.whole_lines());
        let said = ToolOutput {
            stdout: &stdout,
            stderr: &stderr,
            server: server_text.as_deref().unwrap_or_default(),
            udp: udp.as_ref().map(|u| u.as_ref().copied().map_err(String::as_str)),
        };
        let wrong = |why| Problem::trial(format!("the output of {}", about.tool), why);
        setup.tool.read(setup, &said).map_err(wrong)?
    };
    let server_cpu_s = server_said.map(|s| s.usage.user_s + s.usage.system_s);
    Ok(result(
        setup,
        &invocation,
        &Times { warmup_ns: trial.warmup_ns, duration_ns: trial.duration_ns },
        &ended,
        server_cpu_s,
        reading,
    ))
}

/// What of the plan's times may not apply.
struct Times {
    warmup_ns: u64,
    duration_ns: u64,
}

/// Every metric, measured or absent with a reason.
fn result(
    setup: &Setup,
    invocation: &Invocation,
    times: &Times,
    ended: &Completed,
    server_cpu_s: Option<f64>,
    mut reading: Reading,
) -> TrialResult {
    let cpu_s = ended.usage.user_s + ended.usage.system_s + server_cpu_s.unwrap_or_default();
    reading.put("duration_s", ended.duration_s);
    reading.put("cpu_s", cpu_s);
    let measures = setup.tool.measures(setup);
    if measures.contains(&"cpu_s_per_gb") {
        match reading.bytes {
            Some(bytes) if bytes > 0.0 => reading.put("cpu_s_per_gb", cpu_s / (bytes / 1e9)),
            _ => reading.absent("cpu_s_per_gb", "it is not known how many bytes arrived, or none did"),
        }
    }
    let about = setup.tool.about();
    let named = setup.mode.map_or_else(|| about.tool.to_string(), |mode| format!("{} {mode}", about.tool));
    let measurements = metrics::ALL.iter().map(|(id, ..)| {
        if let Some((_, value)) = reading.values.iter().find(|v| v.0 == *id) {
            return Measurement::new(*id, *value);
        }
        match reading.absent.iter().find(|a| a.0 == *id) {
            Some((_, why)) => Measurement::absent(*id, why.clone()),
            None => Measurement::absent(*id, format!("{named} does not measure it")),
        }
    });
    let mut result = TrialResult::new(measurements.collect(), reading.histograms, reading.notes);
    if times.warmup_ns > 0 {
        result
            .notes
            .push(format!("the plan's warm-up does not apply: {} is measured as it runs by itself", about.tool));
    }
    if invocation.fixed_work {
        result.notes.push(format!("the plan's duration does not apply: the work of {named} is fixed"));
    } else if invocation.whole_seconds && !times.duration_ns.is_multiple_of(1_000_000_000) {
        result.notes.push(format!("{} takes whole seconds only, so the plan's duration was rounded up", about.tool));
    }
    result
}

/// A port that is free for TCP and for UDP on the loopback address. Another program may take it before the server does;
/// the server then ends with an error, and the trial is void.
fn free_port() -> Result<u16, Problem> {
    let wrong = |e: std::io::Error| Problem::trial("a free port on 127.0.0.1", format!("there is none: {e}"));
    let mut last = None;
    for _ in 0..32 {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(wrong)?;
        let port = tcp.local_addr().map_err(wrong)?.port();
        match UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(e) => last = Some(e),
        }
    }
    Err(wrong(last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into())))
}

/// Text in memory, behind a descriptor.
fn memory_file(text: &str) -> Result<OwnedFd, Problem> {
    let wrong = |e: rustix::io::Errno| Problem::trial("the tool's profile", format!("it cannot be written: {e}"));
    let file = rustix::fs::memfd_create(c"holdup-profile", MemfdFlags::CLOEXEC).map_err(wrong)?;
    let mut bytes = text.as_bytes();
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, bytes)).map_err(wrong)?;
        bytes = &bytes[written..];
    }
    Ok(file)
}

/// CPUs of a server and of a client, `None` for all that holdup has. A tool without a server has those of both sides.
type SideCpus = (Option<Vec<u32>>, Option<Vec<u32>>);

fn cpus(setup: &Setup, host: &Host, has_server: bool) -> Result<SideCpus, Problem> {
    let Placement { client, server } = setup.placement(host)?;
    if has_server {
        return Ok((server, client));
    }
    let both = client.zip(server).map(|(client, server)| {
        let mut both = [client, server].concat();
        both.sort_unstable();
        both.dedup();
        both
    });
    Ok((None, both))
}

/// What is executed. Programs print numbers as in the C locale.
pub(crate) fn program(file: &Path, name: &str, arguments: &[String]) -> Result<Program, Problem> {
    let mut environment = vec![c_string(OsStr::new("LC_ALL=C"))?];
    for (key, value) in std::env::vars_os().filter(|(key, _)| key != "LC_ALL") {
        let mut entry = key;
        entry.push("=");
        entry.push(value);
        environment.push(c_string(&entry)?);
    }
    let mut words = vec![c_string(OsStr::new(name))?];
    for argument in arguments {
        words.push(c_string(OsStr::new(argument))?);
    }
    Ok(Program { file: c_string(file.as_os_str())?, arguments: words, environment, folder: None })
}

/// Starts a server and waits until it listens.
fn listening(
    server: &Server,
    run: &Run,
    name: &str,
    file: &Path,
    host: &Host,
    cpus: Option<&[u32]>,
    cancel: &Cancel,
) -> Result<BackgroundProcess, Problem> {
    let program = program(file, name, &server.arguments)?;
    let running = BackgroundProcess::start(&program, host, cpus, (KEPT_SERVER, KEPT_SERVER), name)?;
    if running.wait_until(cancel, START, &|| is_open(host, server.listens, run.port)) {
        return Ok(running);
    }
    if cancel.is_cancelled() {
        return Err(Problem::interrupted("the trial"));
    }
    let why = if running.has_ended() { "it ended before it listened" } else { "it did not listen in time" };
    let mut said = running.end(Signal::KILL)?;
    let words = [said.stderr.last_lines(2), said.stdout.last_lines(2)].join(" ");
    Err(Problem::trial(
        format!("the server of {name} on port {}", run.port),
        format!("{why}; it says: {}", words.trim()),
    ))
}

/// True if a socket waits on a port, on any address (`/proc/net/{tcp,udp}`: net/ipv4/tcp_ipv4.c:get_openreq4 and
/// net/ipv4/udp.c:udp4_format_sock, Linux 6.18).
fn is_open(host: &Host, listens: Listens, port: u16) -> bool {
    let (files, state) = match listens {
        Listens::Tcp => (["/proc/net/tcp", "/proc/net/tcp6"], "0A"),
        Listens::Udp => (["/proc/net/udp", "/proc/net/udp6"], "07"),
    };
    let port = format!(":{port:04X}");
    files.iter().filter_map(|f| host.read_text(f).ok()).any(|text| {
        text.lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().take(4).collect();
            matches!(fields.as_slice(), [_, local, _, st] if local.ends_with(&port) && *st == state)
        })
    })
}

/// What the namespace has counted since `before`, read when nothing has moved for a moment.
fn drained(host: &Host, before: Result<Udp, String>, cancel: &Cancel) -> Result<Udp, String> {
    let before = before?;
    let deadline = Instant::now() + DRAIN;
    let mut last = snmp::read(host)?;
    while Instant::now() < deadline && !cancel.is_cancelled() {
        std::thread::sleep(STILL);
        let now = snmp::read(host)?;
        if now == last {
            break;
        }
        last = now;
    }
    last.since(before).ok_or_else(|| format!("the counters of {} went back", snmp::PATH))
}

/// Whether the tool ended as it should.
fn judge(name: &str, ended: &mut Completed, longest: Duration) -> Result<(), Problem> {
    let why = match ended.how {
        Exit::Cancelled => return Err(Problem::interrupted("the trial")),
        Exit::Code(0) | Exit::Enough => return Ok(()),
        Exit::Code(code) => format!("it ended with exit code {code}"),
        Exit::Signal(signal) => format!("it was killed by signal {signal}"),
        Exit::TimedOut => format!("it still ran after {} s", longest.as_secs_f64()),
    };
    let (stderr, stdout) = (ended.stderr.last_lines(3), ended.stdout.last_lines(3));
    let words = if stderr.is_empty() { stdout } else { stderr };
    Err(Problem::trial(format!("tool {name}"), format!("{why}; it says: {words}")))
}
