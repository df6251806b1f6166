//! A host in memory with everything that the knobs act on, and a server that fails on purpose.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod surfaces;

use holdup_host::fake::MemoryFs;
use holdup_host::postgres::{PostgresControl, Setting, SettingContext};
use holdup_host::{Host, Scheduling};
use holdup_knobs::journal::{self, Journal, Restored};
use holdup_knobs::sample::{Sample, Surface};
use holdup_knobs::{KnobContext, find};
use holdup_model::{Machine, Problem, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

pub const JOURNAL: &str = "/var/lib/holdup/journal.json";
pub const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
pub const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";
pub const MIGRATION_COST: &str = "/sys/kernel/debug/sched/migration_cost_ns";
pub const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";
pub const PREEMPT: &str = "/sys/kernel/debug/sched/preempt";
pub const FEATURES: &str = "/sys/kernel/debug/sched/features";

/// The samples of all knobs that the host in memory has.
pub fn samples() -> impl Iterator<Item = &'static Sample> {
    let all = holdup_knobs::knobs::ALL.iter().flat_map(|knob| knob.samples());
    all.filter(|sample| !matches!(sample.surface, Surface::RealOnly))
}

fn sample(factor: &str) -> &'static Sample {
    samples().find(|sample| sample.factor == factor).unwrap()
}

pub fn level(factor: &str, text: &str) -> Value {
    let (knob, _) = find(factor).unwrap();
    let (value, _) = knob.values().parse(text, Machine { cpus: 4, memory_bytes: 1 << 30 }).unwrap().unwrap();
    value
}

/// True if a factor stands for its way to change something. The others differ in path and text only.
pub fn is_paired(factor: &str) -> bool {
    sample(factor).is_paired
}

/// True if a sweep goes over this pair: those of different ways to change something, and any two that share a file.
pub fn is_swept_pair(one: &str, other: &str) -> bool {
    let path = |factor| surfaces::files(&sample(factor).surface).first().map(|file| file.path);
    let shares_a_file = path(one).is_some() && path(one) == path(other);
    one != other && (is_paired(one) && is_paired(other) || shares_a_file)
}

/// The factors of the sweeps, each with two levels. Made once: the sweeps ask for it at every step.
pub fn factors() -> &'static [(&'static str, [Value; 2])] {
    static FACTORS: LazyLock<Vec<(&'static str, [Value; 2])>> = LazyLock::new(|| {
        samples().map(|sample| (sample.factor, sample.levels.map(|text| level(sample.factor, text)))).collect()
    });
    &FACTORS
}

/// True if a factor acts on several things together, so that a report names more than the one that was changed.
pub fn has_parts(factor: &str) -> bool {
    sample(factor).has_parts
}

#[derive(Debug, Default, Clone, PartialEq)]
struct Conf {
    /// postgresql.conf and defaults.
    base: BTreeMap<String, String>,
    /// postgresql.auto.conf.
    auto: BTreeMap<String, String>,
    /// In force.
    shown: BTreeMap<String, String>,
}

/// A server whose every answer is a step of the file system's fault sweep.
#[derive(Clone)]
pub struct MemoryServer {
    fs: MemoryFs,
    conf: Arc<Mutex<Conf>>,
    pub connection: String,
    pub data_directory: String,
    pub can_restart: bool,
    pub is_temporary: bool,
}

fn io_problem(what: &str) -> Problem {
    Problem::host(what, "the server closed the connection")
}

impl MemoryServer {
    pub fn new(fs: &MemoryFs) -> Self {
        let base: BTreeMap<String, String> =
            [("work_mem", "4MB"), ("shared_buffers", "64MB"), ("primary_conninfo", ""), ("block_size", "8192")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into();
        let auto = BTreeMap::from([("shared_buffers".to_owned(), "256MB".to_owned())]);
        let mut conf = Conf { base, auto, shown: BTreeMap::new() };
        conf.reload();
        MemoryServer {
            fs: fs.clone(),
            conf: Arc::new(Mutex::new(conf)),
            connection: "host=/tmp/s user=u password='ge heim'".to_owned(),
            data_directory: "/var/lib/pg".to_owned(),
            can_restart: true,
            is_temporary: false,
        }
    }

    /// What an administrator does beside holdup.
    pub fn foreign(&self, name: &str, value: &str) {
        let mut conf = self.conf.lock().unwrap();
        conf.auto.insert(name.to_owned(), value.to_owned());
        conf.reload();
    }

    pub fn altered(&self, name: &str) -> Option<String> {
        self.conf.lock().unwrap().auto.get(name).cloned()
    }

    pub fn shown(&self, name: &str) -> Option<String> {
        self.conf.lock().unwrap().shown.get(name).cloned()
    }

    fn set(&self, name: &str, value: Option<&str>) -> Result<(), Problem> {
        let (has_effect, outcome) = self.fs.step("alter system", name);
        if has_effect {
            let mut conf = self.conf.lock().unwrap();
            match value {
                Some(value) => conf.auto.insert(name.to_owned(), value.to_owned()),
                None => conf.auto.remove(name),
            };
        }
        outcome.map_err(|_| io_problem("ALTER SYSTEM"))
    }

    fn reload(&self) -> Result<(), Problem> {
        let (has_effect, outcome) = self.fs.step("reload", "server");
        if has_effect {
            self.conf.lock().unwrap().reload();
        }
        outcome.map_err(|_| io_problem("reload"))
    }
}

impl Conf {
    fn reload(&mut self) {
        self.shown = self.base.clone();
        for (name, value) in &self.auto {
            // SHOW gives units: 16384 blocks of 8 kB are 128MB.
            let shown = if value == "16384" { "128MB".to_owned() } else { value.clone() };
            self.shown.insert(name.clone(), shown);
        }
    }
}

impl PostgresControl for MemoryServer {
    fn postmaster_pid(&self) -> Option<u32> {
        None
    }

    fn connection_string(&self) -> String {
        self.connection.clone()
    }

    fn version_num(&self) -> u32 {
        170_000
    }

    fn query(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Problem> {
        if sql == "SELECT pg_reload_conf()" {
            return self.reload().map(|()| Vec::new());
        }
        let (_, outcome) = self.fs.step("query", sql);
        outcome.map_err(|_| io_problem("query"))?;
        if sql == "SHOW data_directory" {
            return Ok(vec![vec![Some(self.data_directory.clone())]]);
        }
        let unit = if sql.contains("'shared_buffers'") { "8kB" } else { "kB" };
        Ok(vec![vec![Some("integer".to_owned()), Some(unit.to_owned())]])
    }

    fn setting(&self, name: &str) -> Result<Setting, Problem> {
        let (_, outcome) = self.fs.step("setting", name);
        outcome.map_err(|_| io_problem("setting"))?;
        let conf = self.conf.lock().unwrap();
        let shown = conf.shown.get(name).cloned();
        let context = match name {
            "block_size" => SettingContext::Internal,
            "shared_buffers" => SettingContext::Postmaster,
            _ => SettingContext::Reload,
        };
        match shown {
            Some(shown) => Ok(Setting { shown, altered: conf.auto.get(name).cloned(), context }),
            None => Err(Problem::usage(format!("PostgreSQL setting `{name}`"), "the server has no such setting")),
        }
    }

    fn can_restart(&self) -> bool {
        self.can_restart
    }

    fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    fn alter(&self, name: &str, value: Option<&str>) -> Result<(), Problem> {
        let before = self.altered(name);
        if before.as_deref() == value {
            return Ok(());
        }
        self.set(name, value)?;
        self.reload().or_else(|problem| {
            self.set(name, before.as_deref())?;
            self.reload()?;
            Err(problem)
        })
    }
}

/// A host in memory.
pub struct World {
    pub fs: MemoryFs,
    pub host: Host,
    pub server: MemoryServer,
}

impl World {
    pub fn new() -> Self {
        let fs = MemoryFs::of(&[
            (BOOT_ID, "boot-1\n"),
            ("/proc/meminfo", "MemAvailable: 1000000 kB\nHugepagesize: 2048 kB\n"),
            ("/proc/mounts", "debugfs /sys/kernel/debug debugfs rw 0 0\n"),
        ]);
        fs.put_process(1, 0, 1, Scheduling::other(0));
        fs.put_process(10, 1, 100, Scheduling::other(0));
        fs.put_process(11, 10, 101, Scheduling::other(3));
        fs.put_process(12, 11, 102, Scheduling::other(0));
        // A second thread with its own policy.
        fs.put("/proc/10/task/15/stat", fs.get("/proc/10/stat").unwrap().replacen("10 (", "15 (", 1));
        fs.put_task(15, Scheduling { policy: Scheduling::BATCH, ..Scheduling::other(1) });
        surfaces::put(&fs);
        let server = MemoryServer::new(&fs);
        World { host: fs.host(), server, fs }
    }

    pub fn context(&self) -> KnobContext<'_> {
        let alive = [10, 11].into_iter().filter(|pid| self.fs.task(*pid).is_some()).collect();
        KnobContext { host: &self.host, postgres: Some(&self.server), pids: alive }
    }

    pub fn open(&self) -> Result<Journal, Problem> {
        Journal::open(self.host.clone(), JOURNAL, 1_700_000_000_000_000_000)
    }

    /// A new process puts things back: what the old one held open was closed when it ended.
    pub fn recover(&self) -> Result<Restored, Problem> {
        self.fs.end_holding();
        journal::recover(&self.host, JOURNAL, &|_| Some(Box::new(self.server.clone())))
    }

    /// Everything that a factor acts on, as it is.
    pub fn state(&self, factor: &str) -> String {
        surfaces::state(&self.fs, &sample(factor).surface).unwrap_or_else(|| {
            let name = factor.strip_prefix("postgres.").unwrap();
            format!("{:?} {:?}", self.server.altered(name), self.server.shown(name))
        })
    }

    /// What someone else does to a factor; gives the value as a report should name it.
    pub fn foreign(&self, factor: &str) -> &'static str {
        surfaces::foreign(&self.fs, sample(factor)).unwrap_or_else(|| {
            self.server.foreign(factor.strip_prefix("postgres.").unwrap(), "77MB");
            "77MB"
        })
    }
}
