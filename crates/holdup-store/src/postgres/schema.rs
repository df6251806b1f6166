//! The schema of a store, its versions and its roles.

use super::PostgresStore;
use holdup_model::Problem;
use holdup_sql::{Client, Error};

/// What each version of the schema adds to the one before it.
const MIGRATIONS: [&str; 2] = [include_str!("migrations/1.sql"), include_str!("migrations/2.sql")];

/// The version that this holdup writes.
const VERSION: i32 = MIGRATIONS.len() as i32;

/// The number of the advisory lock under which the schema changes: ASCII `hldp`.
const LOCK: i64 = 0x686c_6470;

/// What the roles may do. A writer removes what it replaces, and what is pruned.
const GRANTS: &str = "\
GRANT USAGE ON SCHEMA holdup TO holdup_reader, holdup_writer;
GRANT SELECT ON ALL TABLES IN SCHEMA holdup TO holdup_reader, holdup_writer;
GRANT INSERT ON holdup.environment, holdup.metric, holdup.run, holdup.arm, holdup.arm_value, holdup.trial, holdup.bundle_part TO holdup_writer;
GRANT DELETE ON holdup.run, holdup.environment TO holdup_writer;";

/// The version of the schema; `None` without one.
fn version(store: &mut PostgresStore) -> Result<Option<i32>, Problem> {
    if !store.is_true("SELECT to_regclass('holdup.schema_version') IS NOT NULL")? {
        return Ok(None);
    }
    let rows = store.rows("SELECT max(version) FROM holdup.schema_version", &[])?;
    let version = rows.first().map(|row| row.try_get::<_, Option<i32>>(0)).transpose();
    Ok(version.map_err(|e| store.problem(&e.into()))?.flatten())
}

/// True if this user owns the schema.
fn is_owner(store: &mut PostgresStore) -> Result<bool, Problem> {
    store.is_true("SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'holdup'")
}

fn newer(store: &PostgresStore, found: i32) -> Problem {
    let why = format!("its schema has version {found}, and this holdup knows versions up to {VERSION}");
    Problem::host(super::place(&store.config), why).hint("take a newer holdup; nothing was changed")
}

/// Whether the store can be used as it is. An older schema is brought up to date where this user owns it and is about to write.
pub(super) fn check(store: &mut PostgresStore, to_write: bool) -> Result<(), Problem> {
    match version(store)? {
        Some(VERSION) => Ok(()),
        Some(found) if found > VERSION => Err(newer(store, found)),
        Some(_) if to_write && is_owner(store)? => migrate(store).map(drop),
        Some(found) => {
            let why = format!("its schema has version {found}, and this holdup needs {VERSION}");
            Err(Problem::host(super::place(&store.config), why)
                .hint("as the owner of the store: holdup store init brings it up to date, and keeps all runs"))
        }
        None => Err(Problem::host(super::place(&store.config), "the database has no store that this user can see")
            .hint("holdup store init makes one; it takes the right to create a schema in this database")),
    }
}

/// Makes the schema, or brings it up to date. Returns the version before.
fn migrate(store: &mut PostgresStore) -> Result<i32, Problem> {
    let migrated = store.transaction(|client| {
        // Another init waits here until this one has committed.
        client.query_once("SELECT pg_advisory_xact_lock($1)", &[&LOCK])?;
        let before = current(client)?;
        for (number, sql) in (1..).zip(MIGRATIONS).filter(|(number, _)| *number > before) {
            client.simple_query(sql)?;
            client.execute(
                "INSERT INTO holdup.schema_version (version, holdup_version) VALUES ($1, $2)",
                &[&number, &env!("CARGO_PKG_VERSION")],
            )?;
        }
        Ok(before)
    });
    migrated.map_err(|e| {
        let user = store.config.get_user().unwrap_or("USER").to_owned();
        let problem = store.problem(&e);
        if e.code().is_some_and(|code| *code == holdup_sql::SqlState::INSUFFICIENT_PRIVILEGE) {
            let database = store.config.get_dbname().unwrap_or("DATABASE");
            return problem
                .hint(format!("as the owner of the database: GRANT CREATE ON DATABASE \"{database}\" TO \"{user}\""));
        }
        problem
    })
}

/// The version under the lock; the schema and the table of versions are made where they are missing.
fn current(client: &mut Client) -> Result<i32, Error> {
    let there = client.query_one("SELECT to_regclass('holdup.schema_version') IS NOT NULL", &[])?;
    if !there.try_get::<_, bool>(0)? {
        client.simple_query(
            "CREATE SCHEMA IF NOT EXISTS holdup; COMMENT ON SCHEMA holdup IS 'results of holdup: read the views runs, arms, trials, series and facts'; \
             CREATE TABLE holdup.schema_version (version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now(), \
             holdup_version text NOT NULL)",
        )?;
    }
    let row = client.query_one("SELECT coalesce(max(version), 0) FROM holdup.schema_version", &[])?;
    Ok(row.try_get(0)?)
}

/// Makes the store or brings it up to date, and its roles where this user may make them.
pub(super) fn init(store: &mut PostgresStore) -> Result<Vec<String>, Problem> {
    if let Some(found) = version(store)?.filter(|found| *found > VERSION) {
        return Err(newer(store, found));
    }
    let before = migrate(store)?;
    let place = super::place(&store.config);
    let mut said = vec![match before {
        VERSION => format!("The {place} is up to date (schema version {VERSION})."),
        0 => format!("The {place} is made (schema version {VERSION})."),
        older => format!("The {place} was brought from schema version {older} to {VERSION}; all runs are kept."),
    }];
    store.is_checked = true;
    said.push(roles(store)?);
    Ok(said)
}

/// Makes the roles and gives them their rights; otherwise the SQL that does.
fn roles(store: &mut PostgresStore) -> Result<String, Problem> {
    const ROLES: [&str; 2] = ["holdup_reader", "holdup_writer"];
    let there = store.rows("SELECT rolname::text FROM pg_roles WHERE rolname = ANY($1)", &[&ROLES.as_slice()])?;
    let there: Result<Vec<String>, _> = there.iter().map(|row| row.try_get(0)).collect();
    let there = there.map_err(|e| store.problem(&e.into()))?;
    let missing: Vec<&str> = ROLES.into_iter().filter(|role| there.iter().all(|t| t != role)).collect();
    let may = store.is_true("SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user")?;
    let create: String = missing.iter().map(|role| format!("CREATE ROLE {role} NOLOGIN;\n")).collect();
    if !missing.is_empty() && !may {
        return Ok(format!(
            "The roles {} are missing, and this user may not create roles. As a superuser, in this database:\n{create}{GRANTS}",
            missing.join(" and ")
        ));
    }
    // Roles belong to the whole server: another database may make them at the same time.
    for role in missing {
        match store.client.simple_query(&format!("CREATE ROLE {role} NOLOGIN")) {
            Err(e)
                if e.code().is_none_or(|c| {
                    *c != holdup_sql::SqlState::DUPLICATE_OBJECT && *c != holdup_sql::SqlState::UNIQUE_VIOLATION
                }) =>
            {
                return Err(store.problem(&e));
            }
            _ => {}
        }
    }
    store.simple(GRANTS)?;
    Ok("Writers are members of holdup_writer, readers of holdup_reader: GRANT holdup_writer TO …".to_owned())
}
