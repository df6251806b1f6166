//! Talking SQL to a server: connections, rows as text, settings.

use holdup_host::postgres::{Setting, SettingContext};
use holdup_model::Problem;
pub(crate) use holdup_model::text::sql_quoted as literal;
use holdup_sql::{Client, Config, SimpleQueryMessage};
use std::time::{Duration, Instant};

/// Rows of text, as `psql` would print them; `None` is NULL.
pub type Rows = Vec<Vec<Option<String>>>;

pub(crate) fn connect(config: &Config) -> Result<Client, Problem> {
    Client::connect(config).map_err(|e| Problem::host(format!("PostgreSQL at {}", place(config)), e.to_string()))
}

/// The same for statements that go through tables, which may take long.
pub fn connect_patiently(config: &Config) -> Result<Client, Problem> {
    connect(config).map(|client| client.with_limit(holdup_sql::LONG_STATEMENT))
}

/// Host, port and database of a connection, for errors. Never the password.
pub(crate) fn place(config: &Config) -> String {
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            holdup_sql::hosts::Host::Tcp(name) => name.clone(),
            holdup_sql::hosts::Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("{} port {port}, database {}", hosts.join(","), config.get_dbname().unwrap_or("(the user's)"))
}

/// All rows of a statement as text.
///
/// # Errors
/// When the server refuses it or does not answer.
pub fn rows(client: &mut Client, sql: &str) -> Result<Rows, Problem> {
    let messages = client.simple_query(sql).map_err(|e| {
        let head: String = sql.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect();
        Problem::host(format!("query `{head}`"), e.to_string())
    })?;
    Ok(messages
        .iter()
        .filter_map(|message| match message {
            // A value that is no text is none.
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|i| row.try_get(i).ok().flatten().map(str::to_owned)).collect())
            }
            _ => None,
        })
        .collect())
}

/// The only value of the only row.
pub fn one(client: &mut Client, sql: &str) -> Result<String, Problem> {
    rows(client, sql)?
        .into_iter()
        .next()
        .and_then(|row| row.into_iter().next().flatten())
        .ok_or_else(|| Problem::host(format!("query `{sql}`"), "it gave no value"))
}

/// A name as an SQL identifier.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A value in a connection string of the form `key=value`.
pub(crate) fn conninfo(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A setting's name is letters, digits and `_`, with `.` after an extension's prefix.
pub(crate) fn check_name(name: &str) -> Result<(), Problem> {
    let good = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    if name.split('.').all(good) {
        return Ok(());
    }
    Err(Problem::usage(format!("PostgreSQL setting `{name}`"), "this is not the name of a setting"))
}

pub(crate) fn setting(client: &mut Client, name: &str) -> Result<Setting, Problem> {
    check_name(name)?;
    let what = || format!("PostgreSQL setting `{name}`");
    let sql = format!(
        "SELECT current_setting(s.name), s.context, f.setting FROM pg_settings s LEFT JOIN LATERAL \
         (SELECT setting FROM pg_file_settings WHERE lower(name) = lower(s.name) \
          AND sourcefile LIKE '%postgresql.auto.conf' ORDER BY seqno DESC LIMIT 1) f ON true \
         WHERE lower(s.name) = lower({})",
        literal(name)
    );
    let found = rows(client, &sql).map_err(|p| {
        let p = Problem::host(what(), p.why);
        if p.why.contains("permission denied") { p.hint("connect as a superuser: ALTER SYSTEM needs one") } else { p }
    })?;
    let Some([Some(shown), Some(context), altered]) = found.first().map(Vec::as_slice) else {
        return Err(Problem::usage(what(), "the server has no such setting")
            .hint("SELECT name FROM pg_settings lists them; those of an extension need its library loaded"));
    };
    let context = SettingContext::from_word(context);
    Ok(Setting { shown: shown.clone(), altered: altered.clone(), context })
}

/// Settings that are lists of names: each name is quoted, not the whole (GUC_LIST_QUOTE in
/// src/backend/utils/misc/guc_tables.c, 17.11).
const LISTS_OF_NAMES: [&str; 6] = [
    "local_preload_libraries",
    "search_path",
    "session_preload_libraries",
    "shared_preload_libraries",
    "temp_tablespaces",
    "unix_socket_directories",
];

/// The statement that puts a value into postgresql.auto.conf, or takes it out.
pub(crate) fn alter_system(name: &str, value: Option<&str>) -> String {
    let quoted: Vec<String> = name.split('.').map(identifier).collect();
    let name_sql = quoted.join(".");
    match value {
        None => format!("ALTER SYSTEM RESET {name_sql}"),
        Some(list) if LISTS_OF_NAMES.contains(&name.to_lowercase().as_str()) && !list.is_empty() => {
            let items: Vec<String> = list.split(',').map(|item| literal(item.trim().trim_matches('"'))).collect();
            format!("ALTER SYSTEM SET {name_sql} = {}", items.join(", "))
        }
        Some(value) => format!("ALTER SYSTEM SET {name_sql} = {}", literal(value)),
    }
}

/// How long a postmaster may take to read its files again.
const RELOAD: Duration = Duration::from_secs(20);

/// Asks the server to read its files again and waits until new connections have what they say: a fresh
/// backend inherits the time of the postmaster's last load.
pub(crate) fn reload(config: &Config) -> Result<(), Problem> {
    let before = one(&mut connect(config)?, "SELECT pg_conf_load_time(), pg_reload_conf()")?;
    let asked = format!("SELECT pg_conf_load_time() > {}::timestamptz", literal(&before));
    let begun = Instant::now();
    while one(&mut connect(config)?, &asked)? != "t" {
        if begun.elapsed() > RELOAD {
            return Err(Problem::host("reload of PostgreSQL", format!("not done after {} s", RELOAD.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// What keeps a reloaded value from being in force: an error in the files, or a place that wins over them.
/// Asked on a fresh connection. `Ok(true)` means that it waits for a restart.
pub(crate) fn in_force(client: &mut Client, name: &str, wanted: Option<&str>) -> Result<bool, Problem> {
    let refused = |why: String| Problem::host(format!("PostgreSQL setting `{name}`"), why);
    let sql = format!(
        "SELECT s.pending_restart, s.source, s.sourcefile LIKE '%postgresql.auto.conf', s.context, \
         (SELECT error FROM pg_file_settings WHERE lower(name) = lower(s.name) AND error IS NOT NULL \
          ORDER BY seqno DESC LIMIT 1) FROM pg_settings s WHERE lower(s.name) = lower({})",
        literal(name)
    );
    let found = rows(client, &sql)?;
    let Some([Some(pending), source, auto, context, error]) = found.first().map(Vec::as_slice) else {
        return Err(refused("the server has no such setting any more".to_owned()));
    };
    if pending == "t" {
        return Ok(true);
    }
    if let (Some(error), true) = (error, context.as_deref() != Some("postmaster")) {
        return Err(refused(error.clone()));
    }
    if wanted.is_some() && auto.as_deref() == Some("f") || wanted.is_some() && auto.is_none() {
        let source = source.as_deref().unwrap_or("?");
        // A value equal to the one in force already needs no line.
        if source != "default" && source != "configuration file" {
            return Err(refused(format!("what ALTER SYSTEM says is overridden by the {source}")));
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_quoted() {
        let check = |name: &str, value: Option<&str>, expect: &str| assert_eq!(alter_system(name, value), expect);
        check("work_mem", Some("4MB"), "ALTER SYSTEM SET \"work_mem\" = '4MB'");
        check("work_mem", None, "ALTER SYSTEM RESET \"work_mem\"");
        check("a.b", Some("it's"), "ALTER SYSTEM SET \"a\".\"b\" = 'it''s'");
        check("search_path", Some("a, \"B\""), "ALTER SYSTEM SET \"search_path\" = 'a', 'B'");
        check("a.b", Some(r"a\'; x"), r#"ALTER SYSTEM SET "a"."b" = E'a\\''; x'"#);
        check("shared_preload_libraries", Some(""), "ALTER SYSTEM SET \"shared_preload_libraries\" = ''");
        assert_eq!(conninfo(r"a'b\c"), r"'a\'b\\c'");
    }

    #[test]
    fn names_that_could_be_sql_are_refused() {
        for name in ["", "a b", "a;b", "a.", "1a", "a\"b", "a..b"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        for name in ["work_mem", "TimeZone", "pg_stat_statements.max"] {
            check_name(name).unwrap();
        }
    }

    #[test]
    fn errors_never_show_a_password() {
        let config: Config = "host=/nowhere user=u password=geheim dbname=d".parse().unwrap();
        let refused = connect(&config).err().unwrap().to_string();
        assert!(refused.contains("/nowhere port 5432, database d"), "{refused}");
        assert!(!refused.contains("geheim"), "{refused}");
    }
}
