//! Any setting of the PostgreSQL server under test.

use crate::guc::{self, Kind};
use crate::refused::wrong;
use crate::sample::{Sample, Surface};
use crate::{Knob, KnobContext, Past, Standing};
use holdup_host::postgres::{PostgresControl, Setting, SettingContext};
use holdup_model::profile::Destination;
use holdup_model::text::sql_quoted;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// `postgres-setting`.
pub(crate) struct PostgresSetting;

static META: Meta = Meta {
    id: "postgres-setting",
    summary: "any setting of the PostgreSQL server: postgres.NAME",
    docs: "`postgres.shared_buffers`, `postgres.huge_pages` and so on: the value is put into postgresql.auto.conf with \
           ALTER SYSTEM and comes into force by a reload, or by a restart where the setting needs one and the server \
           is one that holdup started. On a server given by --pg only settings that need no restart can be varied.\n\n\
           The value is read back and compared by what it means: 128MB, 131072kB and 16384 blocks of 8 kB are the \
           same, and so are on, true and 1. Undoing puts the line in postgresql.auto.conf back, or takes it out where \
           there was none.",
    references: &[
        "PostgreSQL documentation, 20.1 Setting Parameters, and ALTER SYSTEM",
        "src/backend/utils/misc/guc.c:parse_int, convert_to_base_unit (PostgreSQL 17)",
    ],
};

/// What must be known to put a setting back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    /// The value in postgresql.auto.conf; `None` when there was no line.
    altered: Option<String>,
    /// The value that was in force.
    shown: String,
}

/// Settings whose value may hold a password, which the journal must not keep.
const SECRET: &[&str] = &["primary_conninfo", "ssl_passphrase_command"];

/// Values that mean "choose for me": the server then shows what it chose.
const CHOSEN_BY_SERVER: &[(&str, &str)] = &[
    ("wal_buffers", "-1"),
    ("commit_timestamp_buffers", "0"),
    ("multixact_member_buffers", "0"),
    ("subtransaction_buffers", "0"),
    ("transaction_buffers", "0"),
];

impl Knob for PostgresSetting {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn prefix(&self) -> Option<&'static str> {
        Some("postgres.")
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Text
    }

    fn samples(&self) -> &'static [Sample] {
        const fn real(factor: &'static str, real_levels: &'static [&'static str]) -> Sample {
            Sample { real_levels, ..Sample::new(factor, Surface::RealOnly, ["", ""]) }
        }
        const fn setting(factor: &'static str, name: &'static str, levels: [&'static str; 2]) -> Sample {
            Sample { is_paired: true, ..Sample::new(factor, Surface::Setting(name), levels) }
        }
        const {
            &[
                Sample {
                    real_levels: &["4MB", "64MB"],
                    ..setting("postgres.work_mem", "work_mem", ["64MB", "8192kB"])
                },
                setting("postgres.shared_buffers", "shared_buffers", ["16384", "1GB"]),
                real("postgres.commit_delay", &["0", "100"]),
                real("postgres.wal_compression", &["on", "off"]),
                real("postgres.search_path", &["public", "\"$user\", public"]),
                real("postgres.log_line_prefix", &["%m it's ", ""]),
            ]
        }
    }

    fn touches(&self, instance: &str) -> String {
        format!("the PostgreSQL setting {instance}: its line in postgresql.auto.conf, by ALTER SYSTEM")
    }

    fn probe(&self, context: &KnobContext<'_>, instance: &str) -> Availability {
        let Some(server) = context.postgres else {
            return Availability::unavailable("there is no PostgreSQL server under test");
        };
        if let Err(problem) = check_name(instance) {
            return Availability::unavailable(problem.why);
        }
        match server.setting(instance) {
            Err(problem) => match problem.hint {
                Some(hint) => Availability::unavailable_but(format!("{}: {}", problem.what, problem.why), hint),
                None => Availability::unavailable(format!("{}: {}", problem.what, problem.why)),
            },
            Ok(setting) => match setting.context {
                SettingContext::Internal => Availability::unavailable(format!(
                    "{instance} is fixed when the server is built or its cluster made"
                )),
                SettingContext::Postmaster if !server.can_restart() => Availability::unavailable_but(
                    format!("{instance} needs a restart, and holdup does not restart a server that it did not start"),
                    "leave --pg out: holdup then starts its own server",
                ),
                SettingContext::Postmaster | SettingContext::Reload => Availability::Ready,
            },
        }
    }

    fn read(&self, context: &KnobContext<'_>, instance: &str) -> Result<Value, Problem> {
        setting(context, instance).map(|s| Value::Text(s.shown))
    }

    fn check(&self, instance: &str, value: &Value) -> Result<(), Problem> {
        check_name(instance)?;
        if value.to_string().contains('\0') {
            return Err(wrong(&format!("postgres.{instance}"), value, "text without a zero byte"));
        }
        Ok(())
    }

    fn write(&self, context: &KnobContext<'_>, instance: &str, value: &Value) -> Result<(), Problem> {
        let (server, text) = (server(context)?, value.to_string());
        let is_there = setting(context, instance)?.altered.as_deref() == Some(&text);
        server.alter(instance, Some(&text))?;
        // A line that stood there before may never have been loaded: a process that is killed between the two leaves it.
        if is_there && !self.same_here(context, instance, value, &self.read(context, instance)?) {
            server.query("SELECT pg_reload_conf()")?;
            until_in_force(|| Ok(self.same_here(context, instance, value, &self.read(context, instance)?)))?;
        }
        Ok(())
    }

    fn same(&self, a: &Value, b: &Value) -> bool {
        guc::same(&a.to_string(), &b.to_string(), &Kind::default())
    }

    fn same_here(&self, context: &KnobContext<'_>, instance: &str, wanted: &Value, found: &Value) -> bool {
        let wanted = wanted.to_string();
        let name = instance.to_ascii_lowercase();
        if CHOSEN_BY_SERVER.contains(&(name.as_str(), wanted.as_str())) {
            return setting(context, instance).is_ok_and(|s| s.altered.as_deref() == Some(&wanted));
        }
        guc::same(&wanted, &found.to_string(), &kind(context, instance))
    }

    fn save(&self, context: &KnobContext<'_>, instance: &str, already: &[&Value]) -> Result<Option<Value>, Problem> {
        if !already.is_empty() {
            return Ok(None);
        }
        let Setting { shown, altered, .. } = setting(context, instance)?;
        let saved = serde_json::to_string(&Saved { altered, shown });
        saved.map(|json| Some(Value::Text(json))).map_err(|e| Problem::internal("saved setting", e.to_string()))
    }

    fn standing(&self, context: &KnobContext<'_>, instance: &str, past: &Past<'_>) -> Result<Standing, Problem> {
        let saved = decode(past.saved)?;
        let now = setting(context, instance)?;
        // Without the unit, 16384 blocks and the 128MB that are shown for them look like two values: what holdup wrote
        // would be taken for what had been there.
        let kind = asked_kind(context, instance)?;
        let is_written =
            |text: &str| past.written.iter().map(Value::to_string).any(|w| w == text || guc::same(&w, text, &kind));
        let shown = Value::Text(now.shown.clone());
        if now.altered == saved.altered {
            // The line is back but a reload may be missing: then what holdup wrote is in force still.
            let is_behind = !guc::same(&now.shown, &saved.shown, &kind) && is_written(&now.shown);
            return Ok(if is_behind { Standing::Ours(shown) } else { Standing::Restored });
        }
        Ok(match &now.altered {
            Some(altered) if is_written(altered) => Standing::Ours(shown),
            Some(altered) => Standing::Foreign(Value::Text(altered.clone())),
            None => Standing::Foreign(shown),
        })
    }

    fn restore(&self, context: &KnobContext<'_>, instance: &str, past: &Past<'_>) -> Result<(), Problem> {
        let saved = decode(past.saved)?;
        let server = server(context)?;
        if setting(context, instance)?.altered != saved.altered {
            return server.alter(instance, saved.altered.as_deref());
        }
        server.query("SELECT pg_reload_conf()")?;
        until_in_force(|| Ok(!matches!(self.standing(context, instance, past)?, Standing::Ours(_))))
    }

    fn by_hand(&self, instance: &str, saved: &Value) -> String {
        let name: Vec<String> = instance.split('.').map(|part| format!("\"{}\"", part.replace('"', ""))).collect();
        let name = name.join(".");
        match decode(saved).ok().and_then(|s| s.altered) {
            Some(value) => format!("ALTER SYSTEM SET {name} = {}; SELECT pg_reload_conf();", sql_quoted(&value)),
            None => format!("ALTER SYSTEM RESET {name}; SELECT pg_reload_conf();"),
        }
    }

    fn destinations(&self, instance: &str, value: &Value) -> Vec<Destination> {
        vec![Destination::Postgres { name: instance.to_owned(), value: value.to_string() }]
    }

    fn outlives_boot(&self) -> bool {
        true
    }

    fn is_of_server(&self) -> bool {
        true
    }
}

/// Waits a second for what a reload brings: the postmaster takes its time to hear the signal.
fn until_in_force(mut holds: impl FnMut() -> Result<bool, Problem>) -> Result<(), Problem> {
    for _ in 0..20 {
        if holds()? {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn server<'a>(context: &'a KnobContext<'_>) -> Result<&'a dyn PostgresControl, Problem> {
    context.postgres.ok_or_else(|| Problem::host("PostgreSQL settings", "there is no PostgreSQL server under test"))
}

fn setting(context: &KnobContext<'_>, instance: &str) -> Result<Setting, Problem> {
    check_name(instance)?;
    server(context)?.setting(instance)
}

/// What the server says about the type; nothing when it does not say.
fn kind(context: &KnobContext<'_>, instance: &str) -> Kind {
    asked_kind(context, instance).unwrap_or_default()
}

/// The same, with the error of a server that does not answer.
fn asked_kind(context: &KnobContext<'_>, instance: &str) -> Result<Kind, Problem> {
    // The name goes into the query as it is, so only one that can be a name may.
    check_name(instance)?;
    let sql = format!("SELECT vartype, unit FROM pg_settings WHERE lower(name) = lower('{instance}')");
    let Some(row) = server(context)?.query(&sql)?.into_iter().next() else { return Ok(Kind::default()) };
    let mut columns = row.into_iter();
    Ok(Kind { vartype: columns.next().flatten().unwrap_or_default(), unit: columns.next().flatten() })
}

fn decode(saved: &Value) -> Result<Saved, Problem> {
    serde_json::from_str(&saved.to_string()).map_err(|e| Problem::internal("saved setting", e.to_string()))
}

fn check_name(name: &str) -> Result<(), Problem> {
    let factor = || format!("factor postgres.{name}");
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    if name.is_empty() || name.len() > 127 || !name.chars().all(is_letter) {
        return Err(Problem::usage(factor(), "not the name of a setting").hint("SHOW ALL lists them"));
    }
    if SECRET.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(Problem::usage(factor(), "its value may hold a password, which holdup does not keep on disk"));
    }
    Ok(())
}
