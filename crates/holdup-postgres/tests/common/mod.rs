//! What the tests on a real PostgreSQL share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions, PrepareContext, Prepared, TrialContext, TrialResult, WindowHooks};
use holdup_model::plan::Level;
use holdup_model::{Parameters, Problem, Window};
use holdup_postgres::find::{Need, SearchPath};
use holdup_postgres::pgbench::session::PgbenchSession;
use holdup_postgres::{Binaries, Cluster, ClusterOptions};
use holdup_testkit::ignore;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The programs of this machine; says at run time when there are none.
pub(crate) fn binaries() -> Binaries {
    holdup_testkit::needs_a_user_for_postgres();
    Binaries::find(&SearchPath::of_this_host(None), Need::Server).unwrap_or_else(|problem| ignore(problem))
}

/// A folder that the server's user may enter.
pub(crate) fn workdir() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("hw-").tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    folder
}

pub(crate) fn parameters(given: &[(&str, &str)]) -> Parameters {
    set(holdup_catalogue::pgbench::Parameters::defaults(2), given)
}

/// The values with some of them set.
pub(crate) fn set(mut all: Parameters, given: &[(&str, &str)]) -> Parameters {
    for (name, text) in given {
        match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(whole), _) => all.set(name, whole),
            (_, Ok(real)) => all.set(name, real),
            _ => all.set(name, *text),
        }
    }
    all
}

pub(crate) fn cluster(bin: Binaries, workdir: &tempfile::TempDir) -> Cluster {
    let options = ClusterOptions {
        bin,
        workdir: workdir.path().to_owned(),
        max_clients: 8,
        network: None,
        cancel: Cancel::default(),
    };
    Cluster::create(&Host::real(), &options).unwrap()
}

pub(crate) fn prepare(
    workdir: &tempfile::TempDir,
    uses: &[Parameters],
    url: Option<String>,
) -> Result<Box<dyn Prepared>, Problem> {
    prepare_with(workdir, uses, &PostgresOptions { url, ..PostgresOptions::default() })
}

pub(crate) fn prepare_with(
    workdir: &tempfile::TempDir,
    uses: &[Parameters],
    postgres: &PostgresOptions,
) -> Result<Box<dyn Prepared>, Problem> {
    let session = PgbenchSession::prepare(PrepareContext {
        other_end: None,
        host: &Host::real(),
        parameters: &uses[0],
        combinations: uses,
        metrics: &[],
        postgres,
        workdir: workdir.path().to_owned(),
        cancel: Cancel::default(),
        step: &mut |_| {},
    })?;
    Ok(Box::new(session))
}

pub(crate) fn pool(state: &str) -> BTreeMap<String, Level> {
    BTreeMap::from([("postgres.pool".to_owned(), Level::plain(state))])
}

fn unix_ns() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// What a test does when the window opens, with the subjects.
pub(crate) type OnOpen<'a> = dyn FnMut(&[(String, u32)]) + 'a;

/// Hooks that take the times, and do something when the window opens.
pub(crate) struct Hooks<'a, 'b> {
    begin: Option<(Instant, i64)>,
    pub(crate) window: Option<Window>,
    pub(crate) subjects: Vec<(String, u32)>,
    on_open: &'a mut OnOpen<'b>,
}

impl WindowHooks for Hooks<'_, '_> {
    fn open(&mut self, subjects: &[(String, u32)]) -> Result<(), Problem> {
        self.subjects = subjects.to_vec();
        (self.on_open)(subjects);
        self.begin = Some((Instant::now(), unix_ns()));
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        let (begin, begin_unix_ns) = self.begin.expect("it was opened");
        let length_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap();
        let window = Window { begin_unix_ns, end_unix_ns: unix_ns(), length_ns };
        self.window = Some(window);
        Ok(window)
    }
}

pub(crate) struct Ran {
    pub(crate) result: Result<TrialResult, Problem>,
    pub(crate) window: Option<Window>,
    pub(crate) subjects: Vec<(String, u32)>,
}

impl Ran {
    pub(crate) fn metric(&self, id: &str) -> f64 {
        let result = self.result.as_ref().unwrap();
        let found = result.measurements.iter().find(|m| m.metric == id).unwrap();
        found.value.value().unwrap_or_else(|| panic!("{id} is {:?}", found.value))
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        let result = self.result.as_ref().unwrap();
        result.histograms.iter().find(|h| h.name == name).unwrap().histogram.count()
    }

    pub(crate) fn completed(&self) -> u64 {
        let completed = self.metric("tps") * self.window.unwrap().length_ns as f64 / 1e9;
        assert!((completed - completed.round()).abs() < 1e-3, "{completed}");
        completed.round() as u64
    }
}

pub(crate) fn trial(
    prepared: &mut dyn Prepared,
    parameters: &Parameters,
    (warmup_ms, duration_ms): (u64, u64),
    on_open: &mut OnOpen<'_>,
) -> Ran {
    let mut hooks = Hooks { begin: None, window: None, subjects: Vec::new(), on_open };
    let result = prepared.run(TrialContext {
        parameters,
        warmup_ns: warmup_ms * 1_000_000,
        duration_ns: duration_ms * 1_000_000,
        seed: 42,
        cancel: Cancel::default(),
        enough: holdup_load::Cancel::default(),
        window: &mut hooks,
    });
    Ran { result, window: hooks.window, subjects: hooks.subjects }
}

pub(crate) fn names(folder: &std::path::Path) -> Vec<String> {
    std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

/// Folders of logs of this process in memory.
pub(crate) fn log_folders() -> Vec<String> {
    let own = format!("holdup-pgbench-{}-", std::process::id());
    let mut all: Vec<String> =
        names(std::path::Path::new("/dev/shm")).into_iter().filter(|n| n.starts_with(&own)).collect();
    all.sort();
    all
}

pub(crate) fn is_alive(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

pub(crate) fn kill_after(pid: u32, ms: u64) {
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(ms));
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    });
}
