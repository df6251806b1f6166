//! Programs of others that watch the whole machine meanwhile.

use crate::arguments::Arguments;
use crate::cpu_time;
use crate::observers::{Said, Watching};
use holdup_evidence::Subject;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How to call them.
pub(crate) struct Peers {
    rezolus: PathBuf,
    wprof: PathBuf,
    holdup: PathBuf,
    /// In memory, so that no disk is measured.
    folder: tempfile::TempDir,
}

/// bpftrace's own runqlat, as one line.
const RUNQLAT_BT: &str = "tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @since[args->pid] = nsecs; } \
                          tracepoint:sched:sched_switch { \
                          if (args->prev_state == 0) { @since[args->prev_pid] = nsecs; } \
                          $ns = @since[args->next_pid]; \
                          if ($ns) { @usecs = hist((nsecs - $ns) / 1000); } \
                          delete(@since[args->next_pid]); } END { clear(@since); }";

/// Only the sampler of the run queue, and only for this machine's own.
const REZOLUS: &str = "[general]\nlisten = \"127.0.0.1:42411\"\n[log]\nlevel = \"warn\"\n[defaults]\nenabled = false\n\
                       [samplers.scheduler_runqueue]\nenabled = true\n";

/// perf finds tracepoints in tracefs; where it is not mounted it is mounted for that process alone.
const WITH_TRACEFS: &str = "mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing || exit 1\n\
                            exec \"$@\"";

fn with_tracefs(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", WITH_TRACEFS, "sh", program]);
    command
}

impl Peers {
    pub(crate) fn new(arguments: &Arguments) -> Result<Self, String> {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.map_err(|e| e.to_string())?;
        std::fs::write(folder.path().join("rezolus.toml"), REZOLUS).map_err(|e| e.to_string())?;
        let Arguments { rezolus, wprof, holdup, .. } = arguments.clone();
        Ok(Peers { rezolus, wprof, holdup, folder })
    }

    fn command(&self, name: &str, file: &Path, subjects: &[Subject]) -> Command {
        let mut command;
        match name {
            "perf-sched" => {
                command = with_tracefs("perf");
                command.args(["sched", "record", "-a", "-o"]).arg(file);
            }
            "perf-switch" => {
                command = with_tracefs("perf");
                command.args(["record", "-e", "sched:sched_switch", "-a", "-o"]).arg(file);
            }
            "runqlat" => command = Command::new("runqlat"),
            "bpftrace" => {
                command = with_tracefs("bpftrace");
                command.args(["-e", RUNQLAT_BT]);
            }
            "exporter" => {
                command = Command::new(&self.holdup);
                command.args(["exporter", "--listen", SCRAPED]).env("HOLDUP_CACHE", self.folder.path().join("cache"));
                // The server; a load by the name of its processes would be another watch.
                command.args(subjects.iter().take(1).flat_map(|s| ["--pid".to_owned(), s.pid.to_string()]));
            }
            "node_exporter" => {
                command = Command::new("prometheus-node-exporter");
                command.args([&format!("--web.listen-address={SCRAPED}"), "--collector.perf", "--collector.pressure"]);
            }
            "wprof" => {
                command = with_tracefs(&self.wprof.display().to_string());
                command.args(["-d", "3600s", "-D"]).arg(file);
            }
            _ => {
                command = Command::new(&self.rezolus);
                command.arg(self.folder.path().join("rezolus.toml"));
            }
        }
        command
    }

    /// Starts one and waits until it has attached: until what it holds open of the kernel's stays the same.
    pub(crate) fn start(&self, name: &str, subjects: &[Subject]) -> Result<Box<dyn Watching>, String> {
        let file = self.folder.path().join(name);
        let _of_before = std::fs::remove_file(&file);
        let log = self.folder.path().join(format!("{name}.log"));
        let out = std::fs::File::create(&log).map_err(|e| e.to_string())?;
        let again = out.try_clone().map_err(|e| e.to_string())?;
        let mut command = self.command(name, &file, subjects);
        let command = command.current_dir(self.folder.path()).stdin(Stdio::null()).stdout(out).stderr(again);
        // Its own process group: an interrupt at the terminal does not reach it before the bench does.
        let child = command.process_group(0).spawn().map_err(|e| format!("{name}: {e}"))?;
        let page = match name {
            "exporter" | "node_exporter" => Some("/metrics"),
            "rezolus" => Some("/metrics/binary"),
            _ => None,
        };
        let scraper = page.map(Scraper::start);
        let mut peer = Box::new(Peer { child, file, log, is_over: false, scraper });
        let begun = Instant::now();
        let mut steady = (0, Instant::now());
        while steady.0 == 0 || steady.1.elapsed() < STEADY {
            let text = || std::fs::read_to_string(&peer.log).unwrap_or_default();
            match peer.child.try_wait() {
                Ok(None) => {}
                other => {
                    let why = format!("{name} ended immediately: {other:?} {}", text());
                    peer.is_over = true;
                    return Err(why);
                }
            }
            if begun.elapsed() > Duration::from_secs(30) {
                return Err(format!("{name} attached nothing within 30 s: {}", text()));
            }
            let now = match name {
                "node_exporter" => usize::from(scrape("/metrics").is_ok()),
                // From its first window on: what it costs to stay.
                "exporter" => {
                    usize::from(scrape("/metrics").is_ok_and(|text| text.contains("holdup_watched_seconds_total{")))
                }
                _ => attached(peer.child.id()),
            };
            if now != steady.0 {
                steady = (now, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(if page.is_some() { 200 } else { 10 }));
        }
        Ok(peer)
    }
}

/// For how long what is attached has to stay the same.
pub(crate) const STEADY: Duration = Duration::from_millis(400);

/// How many BPF links, programs and perf events a process holds.
fn attached(pid: u32) -> usize {
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    let is_one = |target: PathBuf| {
        let target = target.display().to_string();
        ["bpf_link", "bpf-prog", "perf_event", "bpf-raw-tracepoint"].iter().any(|part| target.contains(part))
    };
    targets.filter(|target| is_one(target.clone())).count()
}

/// Where exporters listen.
const SCRAPED: &str = "127.0.0.1:42411";
/// How often they are scraped.
const SCRAPE: Duration = Duration::from_secs(5);

/// Scrapes an exporter, as Prometheus does, until it is dropped.
struct Scraper {
    end: Arc<AtomicBool>,
}

impl Scraper {
    fn start(page: &'static str) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ends = end.clone();
        std::thread::spawn(move || {
            let mut next = Instant::now() + SCRAPE;
            while !ends.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(100));
                if Instant::now() >= next {
                    next += SCRAPE;
                    // One that does not answer is not measured, and says so at its end.
                    let _answer = scrape(page);
                }
            }
        });
        Scraper { end }
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.end.store(true, Ordering::SeqCst);
    }
}

fn scrape(page: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(SCRAPED)?;
    stream.write_all(format!("GET {page} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

struct Peer {
    child: Child,
    file: PathBuf,
    log: PathBuf,
    is_over: bool,
    /// Ends with it.
    scraper: Option<Scraper>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        if !self.is_over {
            let _ended = self.child.kill();
            let _status = self.child.wait();
        }
    }
}

impl Watching for Peer {
    fn cpu_s(&self) -> f64 {
        cpu_time::of_running(self.child.id())
    }

    fn stop(mut self: Box<Self>) -> Result<Said, String> {
        self.is_over = true;
        // What it measured is not asked for, so one that does not end has watched all the same.
        // Exporters have nothing to write, and some wait for a second signal.
        let patience = Duration::from_secs(if self.scraper.is_some() { 1 } else { 20 });
        let notes = cpu_time::end(&self.child, libc::SIGINT, patience).err().into_iter().collect();
        let bytes = std::fs::metadata(&self.file).map_or(0, |m| m.len());
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let _gone = std::fs::remove_file(&self.file);
        // What perf calls lost chunks; the others that stream say it in their own words or not at all.
        let lost = text.lines().filter(|line| line.to_ascii_lowercase().contains("lost")).count() as u64;
        Ok(Said { bytes, lost, notes, ..Said::default() })
    }
}
