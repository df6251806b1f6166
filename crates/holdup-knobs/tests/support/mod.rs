//! A host in memory with everything that the knobs act on, and a server that fails on purpose.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "test code")]

pub mod kernel_files;
mod machine;

use holdup_host::fake::MemoryFs;
use holdup_host::postgres::{PostgresControl, Setting, SettingContext};
use holdup_host::{Host, Scheduling};
use holdup_knobs::KnobContext;
use holdup_knobs::journal::{self, Journal, Restored};
use holdup_model::{Problem, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub const JOURNAL: &str = "/var/lib/holdup/journal.json";
pub const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
pub const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";
pub const MIGRATION_COST: &str = "/sys/kernel/debug/sched/migration_cost_ns";
pub const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// Factors of which each pair is swept: one for each way to change something. The others differ in path and text only.
const PAIRED: &[&str] = &[
    "migration-cost",
    "huge-pages-reserved",
    "sched-policy",
    "cgroup-cpu-max",
    "cpu-dma-latency",
    "postgres.work_mem",
    "postgres.shared_buffers",
];

/// Whether a factor stands for its way to change something.
pub fn is_paired(factor: &str) -> bool {
    PAIRED.contains(&factor)
}

/// Whether a sweep goes over this pair: those of `PAIRED`, and any two that share a file.
pub fn is_swept_pair(one: &str, other: &str) -> bool {
    let is_paired = is_paired(one) && is_paired(other);
    one != other && (is_paired || kernel_files::share_a_file(one, other))
}

/// The factors of the sweeps, each with two levels.
pub fn factors() -> Vec<(&'static str, [Value; 2])> {
    let text = |t: &str| Value::Text(t.to_owned());
    let mut all = machine::factors();
    all.extend(kernel_files::in_files().iter().map(|f| (f.factor, f.levels.clone())));
    all.extend([
        ("sched-policy", [text("batch slice:3ms"), text("nice:5")]),
        ("postgres.work_mem", [text("64MB"), text("8192kB")]),
        ("postgres.shared_buffers", [text("16384"), text("1GB")]),
    ]);
    all
}

/// Whether a factor acts on several things together, so that a report names more than the one that was changed.
pub fn has_parts(factor: &str) -> bool {
    factor == "sched-policy" || machine::OF_PARTS.contains(&factor)
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
        kernel_files::put(&fs);
        fs.put_process(1, 0, 1, Scheduling::other(0));
        fs.put_process(10, 1, 100, Scheduling::other(0));
        fs.put_process(11, 10, 101, Scheduling::other(3));
        fs.put_process(12, 11, 102, Scheduling::other(0));
        // A second thread with its own policy.
        fs.put("/proc/10/task/15/stat", fs.get("/proc/10/stat").unwrap().replacen("10 (", "15 (", 1));
        fs.put_task(15, Scheduling { policy: Scheduling::BATCH, ..Scheduling::other(1) });
        machine::put(&fs);
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
        let of_parts = kernel_files::state(&self.fs, factor).or_else(|| machine::state(&self.fs, factor));
        if let Some(state) = of_parts {
            return state;
        }
        match factor {
            "sched-policy" => {
                format!("{:?}", [10, 15, 11, 12].map(|tid| (self.fs.task(tid), self.fs.task_slice(tid))))
            }
            _ => {
                let name = factor.strip_prefix("postgres.").unwrap();
                format!("{:?} {:?}", self.server.altered(name), self.server.shown(name))
            }
        }
    }

    /// What someone else does to a factor; gives the value as a report should name it.
    pub fn foreign(&self, factor: &str) -> &'static str {
        let named = kernel_files::foreign(&self.fs, factor).or_else(|| machine::foreign(&self.fs, factor));
        if let Some(named) = named {
            return named;
        }
        match factor {
            "sched-policy" => {
                self.fs.put_task(11, Scheduling::other(9));
                "nice:9"
            }
            _ => {
                self.server.foreign(factor.strip_prefix("postgres.").unwrap(), "77MB");
                "77MB"
            }
        }
    }
}
