//! What a server says of itself over a connection that the user gave. Every query only reads.

use holdup_host::guc;
use holdup_host::postgres::PostgresControl;
use holdup_model::Problem;
use holdup_model::survey::{Pool, Reading, SpinWaits};
use std::collections::BTreeMap;

/// The first version with `SHOW huge_pages_status`.
const HUGE_PAGES_STATUS: u32 = 170_000;
/// The first version with the wait event SpinDelay (`src/backend/storage/lmgr/s_lock.c:perform_spin_delay`).
const SPIN_DELAY: u32 = 160_000;
/// Buffers that are counted one by one at most, each under the lock of its header.
const MOST_COUNTED: u64 = 1 << 20;
/// Looks at what clients wait for, and the time between them.
const LOOKS: usize = 10;
const BETWEEN_LOOKS_S: &str = "0.004";

/// The queries to a server, in one statement. A row begins with what it is about. `backend_type` is NULL in
/// rows that this user may not see.
const STATE: &str = "\
SELECT 'setting', name, setting, unit, CASE WHEN pending_restart THEN 'pending' END FROM pg_settings WHERE name IN \
('shared_buffers', 'huge_pages', 'huge_pages_status', 'max_connections', 'update_process_title', 'data_directory', \
'server_version', 'port', 'unix_socket_directories');\
SELECT 'clients', count(*) FILTER (WHERE backend_type = 'client backend'), \
count(*) FILTER (WHERE backend_type = 'client backend' AND state IN ('active', 'fastpath function call')), \
count(*) FILTER (WHERE backend_type IS NULL), count(*) FILTER (WHERE state = 'disabled') \
FROM pg_stat_activity WHERE pid <> pg_backend_pid();\
SELECT 'address', host(inet_server_addr());\
SELECT 'buffercache', quote_ident(n.nspname), \
to_regprocedure(quote_ident(n.nspname) || '.pg_buffercache_summary()')::text \
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_buffercache'";

/// A row of `pg_settings`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Row {
    value: String,
    unit: Option<String>,
    is_pending: bool,
}

/// What a server said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Session {
    version_num: u32,
    settings: BTreeMap<String, Row>,
    /// Clients, active ones, rows that are hidden, connections without a state.
    activity: Option<[u32; 4]>,
    address: Option<String>,
    /// The schema of pg_buffercache, and whether it has a summary.
    buffercache: Option<(String, bool)>,
}

impl Session {
    /// Asks the server.
    pub(super) fn ask(control: &dyn PostgresControl) -> Result<Self, Problem> {
        let mut session = Session { version_num: control.version_num(), ..Session::default() };
        for row in control.query(STATE)? {
            session.take(&row);
        }
        Ok(session)
    }

    fn take(&mut self, row: &[Option<String>]) {
        match row {
            [Some(kind), Some(name), Some(value), unit, pending] if kind == "setting" => {
                let row = Row { value: value.clone(), unit: unit.clone(), is_pending: pending.is_some() };
                self.settings.insert(name.clone(), row);
            }
            [Some(kind), counts @ ..] if kind == "clients" => {
                let counts: Vec<u32> = counts.iter().filter_map(|count| count.as_ref()?.parse().ok()).collect();
                self.activity = counts.try_into().ok();
            }
            [Some(kind), address] if kind == "address" => self.address.clone_from(address),
            [Some(kind), Some(schema), summary] if kind == "buffercache" => {
                self.buffercache = Some((schema.clone(), summary.is_some()));
            }
            _ => {}
        }
    }

    /// A setting in force, in its own unit.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(|row| row.value.as_str())
    }

    /// A setting in force with its unit: `16384 of 8kB`.
    pub(super) fn shown(&self, name: &str) -> Option<String> {
        let row = self.settings.get(name)?;
        Some(match &row.unit {
            Some(unit) => format!("{} of {unit}", row.value),
            None => row.value.clone(),
        })
    }

    /// A setting in force, in bytes.
    pub(super) fn bytes(&self, name: &str) -> Option<u64> {
        let row = self.settings.get(name)?;
        let unit = guc::unit(row.unit.as_deref()?)?;
        // The sizes of units are whole and far below 2^53.
        row.value.parse::<u64>().ok()?.checked_mul(unit.size as u64)
    }

    /// True if a setting waits for a restart.
    pub(super) fn is_pending(&self, name: &str) -> bool {
        self.settings.get(name).is_some_and(|row| row.is_pending)
    }

    /// How the server is named where no process of this host is known for it.
    pub(super) fn name(&self) -> String {
        let socket = || self.setting("unix_socket_directories").and_then(|list| list.split(',').next()).map(str::trim);
        let host = self.address.as_deref().or_else(socket).unwrap_or("?");
        format!("host={host} port={}", self.setting("port").unwrap_or("?"))
    }

    pub(super) fn major_version(&self) -> u32 {
        self.version_num / 10_000
    }

    /// The version in full: `17.11`.
    pub(super) fn version(&self) -> String {
        version(self.version_num)
    }

    /// Whether the shared memory lies on huge pages, from 17 on.
    pub(super) fn huge_pages_in_effect(&self) -> Option<Reading<bool>> {
        const SOURCE: &str = "SHOW huge_pages_status";
        if self.version_num < HUGE_PAGES_STATUS {
            return None;
        }
        match self.setting("huge_pages_status") {
            Some("on") => Some(Reading::found(true, SOURCE)),
            Some("off") => Some(Reading::found(false, SOURCE)),
            // `unknown` is what a program that only prints settings says.
            _ => None,
        }
    }

    /// Client connections, and those that run something; `None` when this user may not see them.
    pub(super) fn clients(&self) -> Option<(u32, Option<u32>)> {
        match self.activity? {
            [clients, active, 0, 0] => Some((clients, Some(active))),
            // Without track_activities the server does not record what connections do.
            [clients, _, 0, _] => Some((clients, None)),
            _ => None,
        }
    }

    /// How full the buffer pool is, by pg_buffercache where it is installed.
    pub(super) fn pool(&self, control: &dyn PostgresControl) -> Reading<Pool> {
        const SOURCE: &str = "pg_buffercache";
        const INSTALL: &str = "CREATE EXTENSION pg_buffercache in the database that --pg names";
        let Some((schema, has_summary)) = &self.buffercache else {
            return Reading::unknown(SOURCE, "the extension pg_buffercache is not installed in this database")
                .but(INSTALL);
        };
        let buffers = self.setting("shared_buffers").and_then(|value| value.parse::<u64>().ok());
        let (source, query) = if *has_summary {
            let from = format!("{schema}.pg_buffercache_summary()");
            (from.clone(), format!("SELECT buffers_unused, buffers_used + buffers_unused FROM {from}"))
        } else if buffers.is_none_or(|buffers| buffers > MOST_COUNTED) {
            let why = format!(
                "before PostgreSQL 16 every buffer has to be counted under the lock of its header, and there are more than \
                 {MOST_COUNTED}"
            );
            let by_hand = "SELECT count(*) FILTER (WHERE relfilenode IS NULL), count(*) FROM pg_buffercache shows it, if the \
                           server may be delayed by that";
            return Reading::unknown(SOURCE, why).but(by_hand);
        } else {
            let from = format!("{schema}.pg_buffercache");
            (from.clone(), format!("SELECT count(*) FILTER (WHERE relfilenode IS NULL), count(*) FROM {from}"))
        };
        let rows = match control.query(&query) {
            Ok(rows) => rows,
            Err(problem) => return Reading::unknown(source, problem.why).but("GRANT pg_monitor to the user of --pg"),
        };
        match rows.first().and_then(|row| numbers(row)) {
            Some([unused, all]) => {
                Reading::found(Pool { unused_buffers: unused, buffers: buffers.unwrap_or(all) }, source)
            }
            None => Reading::unknown(source, "it gave no two numbers"),
        }
    }

    /// Looks several times at what clients wait for. One connection, because each new one is work for the server.
    pub(super) fn spin_waits(&self, control: &dyn PostgresControl) -> Reading<SpinWaits> {
        let source = format!("wait_event of pg_stat_activity, {LOOKS} looks");
        if self.version_num < SPIN_DELAY {
            let why = format!("PostgreSQL {} does not report waits for spinlocks", self.major_version());
            return Reading::unknown(source, why).but("PostgreSQL 16 and later have the wait event SpinDelay");
        }
        if self.clients().is_none() {
            return Reading::unknown(source, "pg_stat_activity hides other users' connections from this user")
                .but("GRANT pg_monitor to the user of --pg");
        }
        let look = "SELECT 'look', count(*), count(*) FILTER (WHERE wait_event = 'SpinDelay') FROM pg_stat_activity \
                    WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()";
        // The states of connections are kept until the snapshot is cleared.
        let between = format!(";SELECT pg_sleep({BETWEEN_LOOKS_S});SELECT pg_stat_clear_snapshot();");
        let rows = match control.query(&[look; LOOKS].join(&between)) {
            Ok(rows) => rows,
            Err(problem) => return Reading::unknown(source, problem.why),
        };
        let mut seen = SpinWaits { waiting: 0, looks: 0 };
        for row in &rows {
            let [Some(kind), counts @ ..] = row.as_slice() else { continue };
            if kind != "look" {
                continue;
            }
            let Some([looks, waiting]) = numbers(counts) else {
                return Reading::unknown(source, "it gave no two numbers");
            };
            seen.looks += looks;
            seen.waiting += waiting;
        }
        Reading::found(seen, source)
    }
}

/// A `server_version_num` from 10 on in words: `17.11`.
pub(super) fn version(version_num: u32) -> String {
    format!("{}.{}", version_num / 10_000, version_num % 10_000)
}

fn numbers(row: &[Option<String>]) -> Option<[u64; 2]> {
    let [first, second] = row else { return None };
    Some([first.as_ref()?.parse().ok()?, second.as_ref()?.parse().ok()?])
}
