//! A prepared session of `pgbench`: a server with its tables, and the trials on it.

use super::builds::Builds;
use super::clock::{ClockOffset, window_us};
use super::load::{Load, LoadPlan, LoadResult};
use super::metrics;
use super::parameters::{Script, Settings, TableSize};
use super::pool::BufferPool;
use super::server::Server;
use super::tables::{self, CreatedTables};
use super::two_ends::TwoEnds;
use crate::find::{Need, SearchPath};
use crate::network::url_of;
use crate::{Binaries, Cluster, ClusterOptions, External, PrivateDir, facts, private_dir, sql, sweep_stale};
use holdup_catalogue::pgbench::BUILD;
use holdup_files::{MOST_BYTES_OF_TEXT, random_name, read_input};
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_load::client_hosts::route;
use holdup_load::drive::on_time;
use holdup_load::{
    Cancel, ClientHosts, OtherEnd, PostgresOptions, PrepareContext, Prepared, TrialContext, TrialResult,
};
use holdup_model::plan::Level;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Fact, Problem, ProblemKind, Window};
use holdup_sql::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How the folders of logs are called.
const LOGS: &str = "holdup-pgbench";

/// Where logs go when there is room: writing them costs no disk then.
const TMPFS: &str = "/dev/shm";

/// More log than this for each CPU and second has not been seen: 150,000 lines of 50 bytes.
const LOG_BYTES_PER_CPU_SECOND: u64 = 150_000 * 50;

/// How long clients may take to connect, and backends to end.
const CONNECT: Duration = Duration::from_secs(120);
const BACKENDS_END: Duration = Duration::from_secs(20);

/// How long a server that broke may take until it answers again.
const RECOVERY: Duration = Duration::from_secs(60);

/// The first pgbench whose log runs on CLOCK_MONOTONIC (`epoch_shift`).
const MONOTONIC_LOG: u32 = 14;
/// The first pgbench with `--max-tries`.
const MAX_TRIES: u32 = 15;

/// Where the programs are, for a server of our own or for an existing one.
pub fn binaries(postgres: &PostgresOptions) -> Result<Binaries, Problem> {
    let need = if postgres.url.is_some() { Need::Client } else { Need::Server };
    let folder = PostgresOptions::client(&postgres.builds).or(postgres.bin.as_ref());
    Binaries::find(&SearchPath::of_this_host(folder.map(PathBuf::as_path)), need)
}

/// The session. Dropping it ends the server if it is ours, and removes all that was made.
pub struct PgbenchSession {
    /// Before the server, so that its connection ends first.
    observer: Option<(u64, Client)>,
    server: Server,
    made: CreatedTables,
    /// Where other hosts make the load.
    ends: Option<TwoEnds>,
    logs: PrivateDir,
    /// For logs that would not fit into memory.
    large_logs: Option<PrivateDir>,
    workdir: PathBuf,
    host: Host,
    scripts: BTreeMap<PathBuf, PathBuf>,
    sizes: BTreeSet<TableSize>,
    pool: BufferPool,
    builds: Builds,
    /// The level of the last arm.
    build: Option<String>,
    /// What this session's connections are known by: several hosts may have processes of the same number.
    name: String,
    trials: u64,
}

/// The hosts that make the load, where those are others.
fn clients_of<'a>(context: &PrepareContext<'a>) -> Option<&'a Arc<dyn ClientHosts>> {
    match context.other_end {
        Some(OtherEnd::Clients(clients)) => Some(clients),
        _ => None,
    }
}

/// The one database of the host under test for these uses.
fn database_of(uses: &[Settings]) -> Result<String, Problem> {
    let sizes: BTreeSet<TableSize> = uses.iter().map(|settings| settings.tables).collect();
    match sizes.first() {
        Some(size) if sizes.len() == 1 => Ok(size.database()),
        _ => Err(Problem::internal("the client host", "a session has tables of one size")),
    }
}

impl PgbenchSession {
    /// Finds or starts the server and makes the tables.
    ///
    /// # Errors
    /// When the server or its tables cannot be had, or a use does not fit it; nothing is left behind.
    pub fn prepare(context: PrepareContext<'_>) -> Result<Self, Problem> {
        let host = context.host.clone();
        let given = std::slice::from_ref(context.parameters);
        let combinations = if context.combinations.is_empty() { given } else { context.combinations };
        let uses: Vec<Settings> = combinations.iter().map(Settings::from).collect::<Result<_, _>>()?;
        let builds = Builds::reachable(&host, &context.workdir, &context.postgres.builds)?;
        let bin = match builds.first() {
            Some(first) => Binaries::find(&SearchPath::of_this_host(Some(first)), Need::Server)?,
            None => binaries(context.postgres)?,
        };
        check_version(&bin, &uses)?;
        for folder in sweep_stale(&host, &context.workdir) {
            (context.step)(&format!("removed {}, which a killed run had left", folder.display()));
        }
        for parent in [Path::new(TMPFS), &context.workdir] {
            private_dir::sweep(&host, parent, LOGS, &|_| true);
        }
        let url = match context.other_end {
            Some(OtherEnd::Server(access)) => Some(url_of(access, &database_of(&uses)?)?),
            _ => context.postgres.url.clone(),
        };
        let server = match url {
            Some(url) => Server::Existing(External::connect(&host, &url)?, bin),
            None => {
                (context.step)("making a PostgreSQL cluster");
                let (workdir, cancel) = (context.workdir.clone(), context.cancel.clone());
                let network = clients_of(&context).map(|clients| route(&**clients)).transpose()?;
                // Each client host has a connection that looks at the others.
                let beside = network.as_ref().map_or(0, |(_, clients)| clients.len() as u32);
                let max_clients = uses.iter().map(|s| s.clients).max().unwrap_or(1) + beside;
                let options = ClusterOptions { bin, workdir, max_clients, network, cancel };
                Server::Own(Cluster::create(&host, &options)?)
            }
        };
        let made = tables::prepare(&server, &uses, &context.cancel, context.step)?;
        let ends = match (clients_of(&context), &server) {
            (Some(clients), Server::Own(cluster)) => {
                (context.step)("preparing the client hosts");
                Some(TwoEnds::prepare(clients, cluster, combinations)?)
            }
            _ => None,
        };
        let mut session = PgbenchSession {
            observer: None,
            logs: log_folder(&host, &context.workdir, &server)?,
            large_logs: None,
            workdir: context.workdir,
            host,
            scripts: BTreeMap::new(),
            sizes: uses.iter().map(|s| s.tables).collect(),
            pool: BufferPool::new(&server),
            builds,
            build: None,
            name: random_name().map_err(|e| Problem::host("a name for connections", e.to_string()))?,
            trials: 0,
            made,
            ends,
            server,
        };
        if session.ends.is_none() {
            session.copy_scripts(&uses)?;
        }
        Ok(session)
    }

    /// Scripts are copied once: the server's user can read the copy, and all trials run the same text.
    fn copy_scripts(&mut self, uses: &[Settings]) -> Result<(), Problem> {
        for settings in uses {
            let Script::File(path) = &settings.script else { continue };
            if self.scripts.contains_key(path) {
                continue;
            }
            let failed =
                |e: std::io::Error| Problem::usage(format!("pgbench script {}", path.display()), e.to_string());
            let text = read_input(path, MOST_BYTES_OF_TEXT).map_err(failed)?;
            let name = format!("script-{}.sql", self.scripts.len() + 1);
            let mut file = self.logs.folder().create_file(&name, 0o640).map_err(failed)?;
            file.write_all(&text).map_err(failed)?;
            if let Some(user) = self.server.user() {
                std::os::unix::fs::fchown(&file, None, Some(user.gid)).map_err(failed)?;
            }
            let copy = self.logs.path().join(name);
            self.scripts.insert(path.clone(), copy);
        }
        Ok(())
    }

    /// A connection of holdup's own that is kept: one that came and went would cost a fork each time.
    fn observe(&mut self, sql: &str) -> Result<String, Problem> {
        let generation = self.server.generation();
        let answer = match &mut self.observer {
            Some((of, client)) if *of == generation && !client.is_closed() => sql::one(client, sql),
            _ => {
                let size = self.sizes.first().copied();
                let mut client = match &self.server {
                    Server::Own(cluster) => sql::connect(&cluster.config("postgres"))?,
                    Server::Existing(external, _) => sql::connect(external.config())?,
                };
                debug_assert!(size.is_some(), "a session has at least one use");
                let answer = sql::one(&mut client, sql);
                self.observer = Some((generation, client));
                answer
            }
        };
        if answer.is_err() {
            self.observer = None;
        }
        answer
    }

    fn connected(&mut self, application: &str) -> Result<u64, Problem> {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = ";
        let value = self.observe(&format!("{count}{}", sql::literal(application)))?;
        value.parse().map_err(|_| Problem::trial("pg_stat_activity", format!("`{value}` is not a count")))
    }

    /// Waits until all clients are connected, which is when pgbench lets them go: its threads meet at a
    /// barrier between connecting and the first transaction (`THREAD_BARRIER_WAIT` in threadRun).
    ///
    /// The server is asked only when pgbench has enough files open, and never again after that: looking
    /// ends before the load begins.
    fn wait_for_clients(&mut self, load: &mut Load, plan: &LoadPlan<'_>, cancel: &Cancel) -> Result<(), Problem> {
        let clients = u64::from(plan.settings.clients);
        let files = format!("/proc/{}/fd", load.pid());
        let begun = Instant::now();
        loop {
            load.check(cancel, "while its clients connected")?;
            // Three standard streams, at least one log, and a socket for each client.
            let open = self.host.list(&files).map(|names| names.len() as u64);
            if !open.is_ok_and(|n| n < clients + 4) && self.connected(plan.application)? >= clients {
                return Ok(());
            }
            if begun.elapsed() > CONNECT {
                let why = format!("its {clients} clients were not connected after {} s", CONNECT.as_secs());
                return Err(Problem::trial("pgbench", why));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the backends of a load are gone, so that the next trial has the machine for itself.
    fn wait_for_backends(&mut self, application: &str, terminate: bool) -> Result<(), Problem> {
        if terminate {
            let all = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = ";
            self.observe(&format!("{all}{}", sql::literal(application)))?;
        }
        let begun = Instant::now();
        while self.connected(application)? > 0 {
            if begun.elapsed() > BACKENDS_END {
                return Err(Problem::trial("PostgreSQL server", "backends of the load are still there after its end"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn log_folder_for(&mut self, load_ns: u64) -> Result<PathBuf, Problem> {
        let cpus = u64::from(super::parameters::cpus());
        let bytes = (load_ns / 1_000_000_000 + 1).saturating_mul(cpus).saturating_mul(LOG_BYTES_PER_CPU_SECOND);
        // Half of the free memory: memory is the server's in the first place.
        if self.logs.path().starts_with(TMPFS) && free_bytes(self.logs.path()).is_some_and(|free| bytes > free / 2) {
            if self.large_logs.is_none() {
                let user = self.server.user().cloned();
                self.large_logs = Some(PrivateDir::create(&self.host, &self.workdir, LOGS, user.as_ref())?);
            }
            if let Some(folder) = &self.large_logs {
                return Ok(folder.path().to_owned());
            }
        }
        Ok(self.logs.path().to_owned())
    }

    fn measure(&mut self, trial: &mut TrialContext<'_>, application: &str) -> Result<TrialResult, Problem> {
        if let (Some(ends), Server::Own(cluster)) = (&mut self.ends, &self.server) {
            let mut result = ends.run(cluster, trial)?;
            result.notes.extend(self.pool.note());
            return Ok(result);
        }
        let settings = Settings::from(trial.parameters)?;
        let script = match &settings.script {
            Script::File(path) => Some(self.scripts.get(path).cloned().ok_or_else(|| {
                Problem::internal(format!("pgbench script {}", path.display()), "the session was not prepared with it")
            })?),
            Script::Builtin(_) => None,
        };
        let plan = LoadPlan {
            settings: &settings,
            script: script.as_deref(),
            warmup_ns: trial.warmup_ns,
            duration_ns: trial.duration_ns,
            seed: trial.seed,
            application,
        };
        let folder = self.log_folder_for(trial.warmup_ns.saturating_add(trial.duration_ns))?;
        let mut load = Load::start(&self.server, &plan, &folder)?;
        self.wait_for_clients(&mut load, &plan, &trial.cancel)?;
        load.run_for(plan.warmup_ns, &trial.cancel, &trial.enough, "in the warm-up")?;
        let mut subjects = vec![("load".to_owned(), load.pid())];
        subjects.extend(self.server.control().postmaster_pid().map(|pid| ("server".to_owned(), pid)));
        trial.window.open(&subjects)?;
        let open = ClockOffset::now();
        load.run_for(plan.duration_ns, &trial.cancel, &trial.enough, "inside the window")?;
        let window = trial.window.close()?;
        let close = ClockOffset::now();
        on_time(plan.duration_ns, Duration::from_nanos(window.length_ns))?;
        load.check(&trial.cancel, "inside the window")?;
        let command_line = load.command_line();
        let relative = self.server.bin().pgbench_major >= MONOTONIC_LOG;
        let started = load.started;
        load.end(&trial.cancel)?;
        let (begin_us, end_us) = window_us(&window, started, open, close, relative)?;
        let result = load.read(&settings, begin_us, end_us)?;
        Ok(self.result(&settings, &window, result, command_line))
    }

    fn result(&self, settings: &Settings, window: &Window, load: LoadResult, command_line: String) -> TrialResult {
        let LoadResult { summary, counts, latency, lag, complaints } = load;
        let measurements = metrics::measure(settings, window.length_ns, &counts, &latency, &summary);
        let mut histograms = vec![NamedHistogram { name: "latency".to_owned(), histogram: latency }];
        if settings.rate.is_some() {
            histograms.push(NamedHistogram { name: "schedule_lag".to_owned(), histogram: lag });
        }
        let mut notes = vec![command_line];
        notes.extend(self.pool.note());
        notes.extend(summary.unknown.iter().map(|line| format!("pgbench printed a line that is not known: {line}")));
        notes.extend(complaints.into_iter().map(|line| format!("pgbench on stderr: {line}")));
        TrialResult::new(measurements, histograms, notes)
    }

    /// After a failure: says when it was the server's, and brings a server of our own back, so that the
    /// next trial finds one.
    fn recover(&mut self, problem: Problem, application: &str, cancel: &Cancel) -> Problem {
        self.observer = None;
        let mut problem = problem;
        let (mut begun, mut is_new) = (Instant::now(), false);
        loop {
            // Each time: pgbench can end before its server is gone.
            if let (Server::Own(cluster), false) = (&self.server, is_new)
                && let Err(gone) = cluster.check_alive()
            {
                problem = Problem::trial(gone.what, format!("{}; {}: {}", gone.why, problem.what, problem.why));
                if let Err(again) = start_again(cluster) {
                    return again.of_kind(ProblemKind::Host);
                }
                (begun, is_new) = (Instant::now(), true);
            }
            // A server that lost a backend refuses connections until it has put itself in order.
            match self.wait_for_backends(application, true) {
                Ok(()) => return problem,
                // An existing server needs nothing of a run that ends.
                Err(_) if cancel.is_cancelled() && matches!(self.server, Server::Existing(..)) => return problem,
                Err(e) if begun.elapsed() > RECOVERY => {
                    let why = format!("{}; it was not usable again: {e}", problem.why);
                    return Problem { why, ..problem }.of_kind(ProblemKind::Host);
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// The shared memory of a killed postmaster stays until the last of its children is gone.
fn start_again(cluster: &Cluster) -> Result<(), Problem> {
    let begun = Instant::now();
    while let Err(again) = cluster.start(None) {
        if begun.elapsed() > RECOVERY {
            return Err(again);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn check_version(bin: &Binaries, uses: &[Settings]) -> Result<(), Problem> {
    if bin.pgbench_major < MAX_TRIES && uses.iter().any(|s| s.max_tries != 1) {
        return Err(Problem::host(
            "pgbench parameter max_tries",
            format!("pgbench {} cannot try again; version {MAX_TRIES} is the first that can", bin.pgbench_version),
        ));
    }
    Ok(())
}

fn log_folder(host: &Host, workdir: &Path, server: &Server) -> Result<PrivateDir, Problem> {
    PrivateDir::create(host, Path::new(TMPFS), LOGS, server.user())
        .or_else(|_| PrivateDir::create(host, workdir, LOGS, server.user()))
}

fn free_bytes(folder: &Path) -> Option<u64> {
    rustix::fs::statvfs(folder).ok().map(|s| s.f_bavail.saturating_mul(s.f_frsize))
}

impl Prepared for PgbenchSession {
    fn postgres(&self) -> Option<&dyn PostgresControl> {
        Some(self.server.control())
    }

    fn scheduled_pids(&self) -> Vec<u32> {
        self.server.control().postmaster_pid().into_iter().collect()
    }

    fn facts(&mut self) -> Vec<Fact> {
        let bin = self.server.bin();
        let program = bin.program("pgbench").display().to_string();
        let mut all = vec![Fact::read("pgbench.version", &bin.pgbench_version, format!("{program} --version"))];
        let version = self.server.control().version_num();
        let shown = format!("{}.{}", version / 10_000, version % 10_000);
        all.push(Fact::read("postgres.version", shown, "SHOW server_version_num").steady());
        match &self.server {
            Server::Own(cluster) => {
                let found = match &self.build {
                    Some(_) => "built by holdup",
                    None => "the first of --pg-bin, pg_config, PATH, /usr/lib/postgresql, /usr/pgsql-*",
                };
                all.push(Fact::read("postgres.bin", cluster.programs().display().to_string(), found));
                all.extend(self.build.as_ref().map(|build| Fact::read(BUILD, build, "the plan")));
                all.push(facts::file_system(&self.host, "postgres.data_file_system", &cluster.data()));
                let runs_as = cluster.user().map_or("the same as holdup", |u| u.name.as_str());
                all.push(Fact::read("postgres.user", runs_as, "/etc/passwd"));
            }
            Server::Existing(external, _) => {
                all.push(Fact::read("postgres.place", external.place(), "--pg"));
                let why = "the server was not started by holdup";
                all.push(Fact::absent("postgres.bin", "--pg", why));
                all.push(Fact::absent("postgres.data_file_system", "--pg", why));
            }
        }
        match &self.ends {
            Some(ends) => all.extend(ends.facts.iter().cloned()),
            None => all.push(facts::file_system(&self.host, "pgbench.log_file_system", self.logs.path())),
        }
        all.extend(facts::server(&self.host, self.server.control()));
        all
    }

    fn set(&mut self, factors: &BTreeMap<String, Level>) -> Result<(), Problem> {
        if let (Some((level, programs)), Server::Own(cluster)) = (self.builds.of(factors)?, &self.server) {
            self.observer = None;
            cluster.serve_with(programs)?;
            self.build = Some(level.to_owned());
        }
        tables::tidy(&self.server, &self.sizes)?;
        self.pool.set(&self.server, &self.sizes, factors)
    }

    fn run(&mut self, mut trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
        self.trials += 1;
        let application = format!("holdup-load-{}-{}", self.name, self.trials);
        let result = self.measure(&mut trial, &application);
        self.pool.after_trial(&self.server, result.is_err());
        match result {
            Ok(result) => {
                self.wait_for_backends(&application, false)?;
                Ok(result)
            }
            // The server ends with the session in a moment.
            Err(problem) if problem.kind == ProblemKind::Interrupted => Err(problem),
            Err(problem) => Err(self.recover(problem, &application, &trial.cancel)),
        }
    }

    fn close(self: Box<Self>) -> Result<(), Problem> {
        let PgbenchSession { observer, server, made, logs, large_logs, builds, ends, .. } = *self;
        drop(ends);
        drop(observer);
        let mut results = vec![made.remove(), logs.remove()];
        results.extend(large_logs.map(PrivateDir::remove));
        results.push(match server {
            Server::Own(cluster) => cluster.discard(),
            Server::Existing(..) => Ok(()),
        });
        // After the server that runs one of them.
        results.push(builds.remove());
        let left: Vec<String> = results.into_iter().filter_map(Result::err).map(|p| p.to_string()).collect();
        if left.is_empty() {
            return Ok(());
        }
        Err(Problem::new(ProblemKind::NotRestored, "pgbench", left.join("; ")))
    }
}
