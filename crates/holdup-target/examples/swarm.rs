//! Random sequences of knobs on the real host, with faults and kills, and what is different afterwards.
//!
//! `script/swarm` builds and runs it. Each sequence starts from an odd state, runs as its own process that fails or
//! is killed at a counted operation or at a random time, and is made good by another process, as `holdup restore` would.
//! What then differs and was not reported is what must never be.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers, which reports on a terminal")]

use holdup_files::{Folder, private_folder};
use holdup_host::postgres::PostgresControl;
use holdup_host::{FileIdentity, Host, HostFs, RealFs, Scheduling};
use holdup_knobs::journal::{self, Journal};
use holdup_knobs::sample::Sample;
use holdup_knobs::{KnobContext, find, knobs};
use holdup_load::Cancel;
use holdup_model::{Availability, Machine, Problem, Value};
use holdup_postgres::find::{Need, SearchPath};
use holdup_postgres::{Binaries, Cluster, ClusterOptions, External};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The settings of the server that may be altered before a sequence, and what to.
const ALTERED: &[(&str, &str)] = &[("work_mem", "7MB"), ("search_path", "\"a b\", public"), ("wal_compression", "on")];

/// All settings, with what stands in postgresql.auto.conf.
const SETTINGS: &str = "SELECT s.name, s.setting, s.source, s.pending_restart, f.setting, f.error FROM pg_settings s \
    LEFT JOIN pg_file_settings f ON f.name = s.name AND f.sourcefile LIKE '%auto.conf' \
    WHERE s.source NOT IN ('client', 'session') ORDER BY 1";

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// How a process ends before its time.
#[derive(Debug, Clone, Copy)]
enum Mishap {
    None,
    /// This operation fails without effect, and another one this number later.
    Fault(u64, u64),
    /// The process is killed at this operation.
    Kill(u64),
    /// It is killed from outside after this time, µs.
    KillAfter(u64),
}

/// The real files, of which every operation is counted.
struct Counted {
    inner: RealFs,
    count: AtomicU64,
    mishap: Mishap,
}

impl Counted {
    fn step(&self) -> io::Result<()> {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        match self.mishap {
            Mishap::Fault(first, second) if number == first || number == second => {
                Err(io::Error::from_raw_os_error(libc::EIO))
            }
            Mishap::Kill(at) if number >= at => {
                // SAFETY: ends this process.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
                loop {
                    std::thread::park();
                }
            }
            _ => Ok(()),
        }
    }
}

macro_rules! counted {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        $(fn $name(&self, $($arg: $type),*) -> io::Result<$out> {
            self.step()?;
            self.inner.$name($($arg),*)
        })*
    };
}

impl HostFs for Counted {
    counted! {
        read(path: &Path) -> Vec<u8>;
        write(path: &Path, bytes: &[u8]) -> ();
        list(path: &Path) -> Vec<String>;
        may_write(path: &Path) -> ();
        replace_synced(path: &Path, bytes: &[u8]) -> ();
        remove_synced(path: &Path) -> ();
        read_head(path: &Path, longest: usize) -> Vec<u8>;
        read_own(path: &Path) -> Vec<u8>;
        read_link(path: &Path) -> PathBuf;
        mode(path: &Path) -> u32;
        identity(path: &Path) -> FileIdentity;
        scheduling(tid: u32) -> Scheduling;
        set_scheduling(tid: u32, wanted: Scheduling) -> ();
        hold(path: &Path, bytes: &[u8]) -> ();
        release(path: &Path) -> ();
        holds(path: &Path) -> bool;
        slice(tid: u32) -> Option<u64>;
        set_slice(tid: u32, own_ns: Option<u64>) -> ();
        affinity(tid: u32) -> Vec<u32>;
        set_affinity(tid: u32, cpus: &[u32]) -> ();
        kernel_log() -> Vec<u8>;
    }

    fn exists(&self, path: &Path) -> bool {
        self.inner.exists(path)
    }

    fn is_live(&self) -> bool {
        true
    }
}

/// What a process of the swarm is given by its parent.
#[derive(Debug, Clone)]
struct Sequence {
    steps: Vec<(&'static str, &'static str)>,
    restores: bool,
    mishap: Mishap,
}

impl Sequence {
    fn random(chance: &mut Chance, samples: &[&'static Sample]) -> Self {
        let steps = (0..=chance.below(6)).map(|_| {
            let sample = chance.of(samples);
            (sample.factor, *chance.of(sample.real_levels))
        });
        let steps = steps.collect();
        let operation = |chance: &mut Chance| 1 + chance.next() % 160;
        let mishap = match chance.below(10) {
            0 => Mishap::None,
            1..=3 => {
                let first = operation(chance);
                Mishap::Fault(first, first + 1 + chance.next() % 20)
            }
            4..=7 => Mishap::Kill(operation(chance)),
            _ => Mishap::KillAfter(chance.next() % 40_000),
        };
        Sequence { steps, restores: chance.below(2) == 0, mishap }
    }
}

fn value(factor: &str, text: &str) -> Value {
    let (knob, _) = find(factor).unwrap();
    let (value, _) = knob.values().parse(text, Machine { cpus: 2, memory_bytes: 1 << 30 }).unwrap().unwrap();
    value
}

type Postgres<'a> = Option<&'a dyn PostgresControl>;

fn context<'a>(host: &'a Host, postgres: Postgres<'a>, pids: &[u32]) -> KnobContext<'a> {
    KnobContext { host, postgres, pids: pids.to_vec() }
}

/// The process that applies.
fn apply(journal: &str, postgres: Postgres<'_>, pids: &[u32], sequence: &Sequence) {
    let fs = Counted { inner: RealFs::new("/"), count: AtomicU64::new(0), mishap: sequence.mishap };
    let host = Host::over(Arc::new(fs));
    let Ok(mut journal) = Journal::open(host.clone(), journal, 0) else { return };
    for (factor, level) in &sequence.steps {
        // A level that this host refuses leaves everything as it is.
        let _refused_or_not = journal.apply(&context(&host, postgres, pids), factor, &value(factor, level));
    }
    if sequence.restores {
        journal.restore_all(&context(&host, postgres, pids));
    }
}

/// What can be read of every knob and of every task, in words.
fn snapshot(host: &Host, postgres: Postgres<'_>, pids: &[u32], samples: &[&Sample]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let (settings, others): (Vec<&Sample>, Vec<&Sample>) = samples.iter().partition(|sample| is_of_server(sample));
    if let (Some(server), false) = (postgres, settings.is_empty()) {
        for row in server.query(SETTINGS).unwrap() {
            let row: Vec<String> = row.into_iter().map(|field| field.unwrap_or_else(|| "none".to_owned())).collect();
            found.insert(format!("postgres.{}", row[0]), row[1..].join(" / "));
        }
    }
    for factor in others.iter().map(|sample| sample.factor) {
        let (knob, instance) = find(factor).unwrap();
        let now = knob.read(&context(host, postgres, pids), instance);
        let now = now.map_or_else(|p| p.to_string(), |value| value.to_string());
        found.insert(factor.to_owned(), now);
    }
    for pid in pids {
        let state = format!("{:?} {:?} {:?}", host.scheduling(*pid), host.affinity(*pid), host.slice(*pid));
        found.insert(format!("task {pid}"), state);
    }
    found
}

/// Tasks to act on, in a control group where one can be made.
struct Subjects {
    children: Vec<Child>,
    group: Option<PathBuf>,
}

impl Subjects {
    fn start() -> Self {
        let children: Vec<Child> =
            (0..3).map(|_| Command::new("/proc/self/exe").arg("--sleep").spawn().unwrap()).collect();
        let parents = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"];
        let group = parents.iter().find_map(|parent| {
            let group = Path::new(parent).join(format!("holdup-swarm-{}", std::process::id()));
            std::fs::create_dir(&group).ok()?;
            let joined =
                children.iter().all(|c| std::fs::write(group.join("cgroup.procs"), c.id().to_string()).is_ok());
            if !joined {
                let _empty = std::fs::remove_dir(&group);
            }
            joined.then_some(group)
        });
        Subjects { children, group }
    }

    fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// An odd state to begin with.
    fn make_odd(&self, host: &Host, chance: &mut Chance) {
        for pid in self.pids() {
            let policy = *chance.of(&[Scheduling::OTHER, Scheduling::OTHER, Scheduling::BATCH, Scheduling::IDLE]);
            let nice = i32::try_from(chance.below(25)).unwrap() - 5;
            let wanted = Scheduling { policy, ..Scheduling::other(nice) };
            host.set_scheduling(pid, wanted).unwrap();
            let cpus = chance.of(&[vec![0], vec![0, 1], vec![1]]).clone();
            // A host may have one CPU, and a kernel before 6.12 no slices.
            let _refused = host.set_affinity(pid, &cpus);
            let _none = host.set_slice(pid, *chance.of(&[None, None, Some(2_000_000)]));
        }
    }
}

impl Drop for Subjects {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ended = child.kill();
            let _reaped = child.wait();
        }
        if let Some(group) = &self.group {
            let _left = std::fs::remove_dir(group);
        }
    }
}

#[derive(Default)]
struct Sums {
    sequences: u64,
    kills: u64,
    faults: u64,
    reported: BTreeMap<String, u64>,
    silent: u64,
}

struct Swarm {
    host: Host,
    server: Option<External>,
    subjects: Subjects,
    samples: Vec<&'static Sample>,
    journal: String,
    folder: Folder,
    sums: Sums,
}

impl Swarm {
    fn one(&mut self, seed: u64) {
        let mut chance = Chance(seed);
        self.subjects.make_odd(&self.host, &mut chance);
        // A server takes a hundred times as long as the kernel does.
        let mut samples = self.samples.clone();
        if chance.below(8) != 0 {
            samples.retain(|sample| !is_of_server(sample));
        } else if let Some(server) = &self.server {
            for (name, odd) in ALTERED {
                let wanted = (chance.below(3) == 0).then_some(*odd);
                server.alter(name, wanted).unwrap();
            }
        }
        let pids = self.subjects.pids();
        let before = snapshot(&self.host, postgres(&self.server), &pids, &samples);
        let sequence = Sequence::random(&mut chance, &samples);
        self.sums.sequences += 1;
        let in_child = |work: &dyn Fn()| {
            // SAFETY: this process has one thread; the child runs `work` and ends.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                work();
                // SAFETY: ends the child without running what belongs to the parent.
                unsafe { libc::_exit(0) };
            }
            rustix::process::Pid::from_raw(pid).unwrap()
        };
        let child = in_child(&|| apply(&self.journal, postgres(&self.server), &pids, &sequence));
        if let Mishap::KillAfter(us) = sequence.mishap {
            std::thread::sleep(Duration::from_micros(us));
            let _ended_already = rustix::process::kill_process(child, rustix::process::Signal::KILL);
        }
        let status = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap();
        self.sums.kills += u64::from(status.is_some_and(|(_, status)| status.terminating_signal().is_some()));
        self.sums.faults += u64::from(matches!(sequence.mishap, Mishap::Fault(..)));
        let recovered = journal::recover(&self.host, &self.journal, &|server| holdup_target::reach(&self.host, server));
        let mut reported: Vec<String> = match &recovered {
            Ok(restored) => restored.left.iter().map(|left| left.factor.clone()).collect(),
            Err(problem) => vec![problem.to_string()],
        };
        let after = snapshot(&self.host, postgres(&self.server), &pids, &samples);
        let of_tasks = ["sched-policy", "affinity"];
        let different: Vec<&String> =
            before.iter().filter(|(key, was)| after.get(*key) != Some(*was)).map(|(k, _)| k).collect();
        let is_silent = different.iter().any(|key| {
            let is_reported =
                |factor: &String| factor == *key || (key.starts_with("task ") && of_tasks.contains(&factor.as_str()));
            !reported.iter().any(is_reported)
        });
        let is_left = self.folder.stat("journal.json").is_ok() && reported.is_empty();
        if is_silent || is_left {
            self.sums.silent += 1;
            println!("seed {seed}: {sequence:?}");
            for key in different {
                println!("  {key} was {} and is {}", before[key], after[key]);
            }
            if is_left {
                println!("  the journal is left and nothing was reported");
            }
        }
        for left in recovered.iter().flat_map(|restored| &restored.left) {
            println!("seed {seed}: {left}");
        }
        reported.dedup();
        for factor in reported {
            println!("seed {seed}: reported: {sequence:?}");
            *self.sums.reported.entry(factor).or_default() += 1;
        }
        // The next sequence begins on a clean page.
        let _forgotten = journal::forget(&self.host, &self.journal);
    }
}

fn postgres(server: &Option<External>) -> Postgres<'_> {
    server.as_ref().map(|server| server as &dyn PostgresControl)
}

/// A server whose settings can be changed, where PostgreSQL is installed.
fn cluster(host: &Host) -> Result<Cluster, Problem> {
    let options = ClusterOptions {
        network: None,
        bin: Binaries::find(&SearchPath::of_this_host(None), Need::Server)?,
        workdir: std::env::temp_dir(),
        max_clients: 20,
        cancel: Cancel::default(),
    };
    Cluster::create(host, &options)
}

fn is_of_server(sample: &Sample) -> bool {
    find(sample.factor).unwrap().0.is_of_server()
}

/// True if it is the same for all processes.
fn is_of_host(sample: &Sample) -> bool {
    !find(sample.factor).unwrap().0.is_of_processes() && !sample.factor.starts_with("cgroup") && !is_of_server(sample)
}

fn main() -> ExitCode {
    let number = |name: &str| {
        let mut words = std::env::args().skip_while(|word| word != name).skip(1);
        words.next().and_then(|word| word.parse::<u64>().ok())
    };
    if std::env::args().any(|word| word == "--sleep") {
        std::thread::sleep(Duration::from_secs(86_400));
    }
    if !rustix::process::geteuid().is_root() {
        println!("ignored, because only root can set most knobs");
        return ExitCode::SUCCESS;
    }
    let (count, seconds) = (number("--count").unwrap_or(u64::MAX), number("--seconds").unwrap_or(u64::MAX));
    let first = number("--seed").unwrap_or(1);
    let top = tempfile::tempdir().unwrap();
    let state = top.path().join("state");
    let folder = private_folder(&state).unwrap();
    let subjects = Subjects::start();
    let host = Host::real();
    let pids = subjects.pids();
    let cluster = cluster(&host).inspect_err(|why| println!("left out: settings of PostgreSQL: {why}")).ok();
    // As one that holdup did not make: by itself it puts nothing back.
    let server =
        cluster.as_ref().map(|made| External::connect(&host, &made.connection_string_for("postgres")).unwrap());
    let is_usable = |sample: &&Sample| {
        let (knob, instance) = find(sample.factor).unwrap();
        let found = knob.probe(&context(&host, postgres(&server), &pids), instance);
        if let Availability::Unavailable { reason, .. } = &found {
            println!("left out: {}: {reason}", sample.factor);
        }
        found.is_usable()
    };
    let all = knobs::ALL.iter().flat_map(|knob| knob.samples()).filter(|sample| !sample.real_levels.is_empty());
    let samples: Vec<&Sample> = all.filter(is_usable).collect();
    println!("knobs: {}", samples.iter().map(|sample| sample.factor).collect::<Vec<_>>().join(", "));
    let of_host: Vec<_> = samples.iter().copied().filter(|sample| is_of_host(sample)).collect();
    let at_first = snapshot(&host, None, &[], &of_host);
    let journal = state.join("journal.json").display().to_string();
    let mut swarm = Swarm { host: host.clone(), server, subjects, samples, journal, folder, sums: Sums::default() };
    let begun = Instant::now();
    let mut seed = first;
    while swarm.sums.sequences < count && begun.elapsed().as_secs() < seconds {
        swarm.one(seed);
        seed = seed.wrapping_add(1);
    }
    let Sums { sequences, kills, faults, reported, silent } = &swarm.sums;
    let reported: u64 = reported.values().sum();
    println!(
        "{sequences} sequences in {:.0} s, {kills} kills, {faults} with faults: {silent} silently not restored, {reported} reported",
        begun.elapsed().as_secs_f64()
    );
    let now = snapshot(&host, None, &[], &of_host);
    if now != at_first {
        println!("the host is not as it was: {at_first:?} became {now:?}");
        return ExitCode::FAILURE;
    }
    if *silent == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
