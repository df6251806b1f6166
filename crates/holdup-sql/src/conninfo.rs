//! Connection strings as libpq reads them: `postgresql://…` or `key=value …`, completed from a service, the environment and the
//! password file (conninfo_add_defaults in src/interfaces/libpq/fe-connect.c, 17).

use crate::surroundings::Surroundings;
use crate::{Error, passfile, service};
use std::collections::BTreeMap;

/// Keys with their values.
pub(crate) type Pairs = BTreeMap<String, String>;

/// Environment variables, by the key that they stand for.
const VARIABLES: [(&str, &str); 19] = [
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("port", "PGPORT"),
    ("dbname", "PGDATABASE"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("passfile", "PGPASSFILE"),
    ("options", "PGOPTIONS"),
    ("application_name", "PGAPPNAME"),
    ("sslmode", "PGSSLMODE"),
    ("sslnegotiation", "PGSSLNEGOTIATION"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcrl", "PGSSLCRL"),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("target_session_attrs", "PGTARGETSESSIONATTRS"),
];

/// Keys of libpq that change nothing here.
const WITHOUT_EFFECT: [&str; 9] = [
    "client_encoding",
    "fallback_application_name",
    "gssencmode",
    "krbsrvname",
    "gsslib",
    "gssdelegation",
    "sslcompression",
    "sslsni",
    "requiressl",
];

/// The pairs of a connection string, nothing added.
///
/// # Errors
/// When it is none. Nothing of it is in the error.
pub(crate) fn parse(text: &str) -> Result<Pairs, Error> {
    let text = text.trim();
    let pairs = match text.strip_prefix("postgresql://").or_else(|| text.strip_prefix("postgres://")) {
        Some(rest) => of_url(rest),
        None => of_words(text),
    };
    let mut pairs = pairs?;
    WITHOUT_EFFECT.iter().for_each(|key| drop(pairs.remove(*key)));
    Ok(pairs)
}

fn wrong(why: impl Into<String>) -> Error {
    Error::Config(why.into())
}

fn put(pairs: &mut Pairs, key: &str, value: String) {
    pairs.insert(key.to_owned(), value);
}

/// `user:password@host:port,host:port/database?key=value&…`
fn of_url(rest: &str) -> Result<Pairs, Error> {
    let mut pairs = Pairs::new();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    for (key, value) in [("user", user), ("password", password), ("dbname", database)] {
        if !value.is_empty() {
            put(&mut pairs, key, decoded(value)?);
        }
    }
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for host in hosts.split(',') {
        let (name, port) = match host.strip_prefix('[') {
            Some(v6) => {
                let (name, after) = v6.split_once(']').ok_or_else(|| wrong("an address in brackets has no end"))?;
                (name, after.strip_prefix(':').unwrap_or(""))
            }
            None => host.split_once(':').unwrap_or((host, "")),
        };
        names.push(decoded(name)?);
        ports.push(port.to_owned());
    }
    if names.iter().any(|name| !name.is_empty()) {
        put(&mut pairs, "host", names.join(","));
    }
    if ports.iter().any(|port| !port.is_empty()) {
        put(&mut pairs, "port", ports.join(","));
    }
    for parameter in query.split('&').filter(|p| !p.is_empty()) {
        let (key, value) = parameter.split_once('=').ok_or_else(|| wrong("a parameter of the URL has no `=`"))?;
        match (decoded(key)?.as_str(), decoded(value)?) {
            ("ssl", value) if value == "true" => put(&mut pairs, "sslmode", "require".to_owned()),
            (key, value) => put(&mut pairs, key, value),
        }
    }
    Ok(pairs)
}

fn decoded(text: &str) -> Result<String, Error> {
    let bad = || wrong("a `%` of the URL is not followed by two hexadecimal digits");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|d| char::from(d).to_digit(16)).ok_or_else(bad);
        // Two hexadecimal digits are a byte.
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).map_err(|_| wrong("a part of the URL is not UTF-8"))
}

/// `key = 'value' key=value`: `\` takes the next character as it is.
fn of_words(text: &str) -> Result<Pairs, Error> {
    let mut pairs = Pairs::new();
    let mut rest = text.chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(_) = rest.peek() else { return Ok(pairs) };
        let mut key = String::new();
        while let Some(c) = rest.next_if(|c| *c != '=' && !c.is_whitespace()) {
            key.push(c);
        }
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        if rest.next() != Some('=') {
            return Err(wrong("there is a word without `=`"));
        }
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        let is_quoted = rest.next_if_eq(&'\'').is_some();
        let mut value = String::new();
        loop {
            match rest.next() {
                Some('\\') => value.extend(rest.next()),
                Some('\'') if is_quoted => break,
                Some(c) if !is_quoted && c.is_whitespace() => break,
                Some(c) => value.push(c),
                None if is_quoted => return Err(wrong("a quoted value has no end")),
                None => break,
            }
        }
        put(&mut pairs, &key, value);
    }
}

/// Completes what the user wrote: first from the service, then from the environment, then from the password file. Returns what was
/// left out and why, for the error of a connection that fails.
///
/// # Errors
/// When the service is not defined, or its file cannot be read.
pub(crate) fn complete(pairs: &mut Pairs, around: &Surroundings) -> Result<Vec<String>, Error> {
    let named = pairs.remove("service").or_else(|| around.variable("PGSERVICE"));
    if let Some(name) = named {
        for (key, value) in service::find(&name, around)? {
            pairs.entry(key).or_insert(value);
        }
    }
    for (key, variable) in VARIABLES {
        if let (false, Some(value)) = (pairs.contains_key(key), around.variable(variable)) {
            put(pairs, key, value);
        }
    }
    let mut notes = Vec::new();
    if !pairs.contains_key("password") {
        match passfile::find(pairs, around) {
            Ok(Some(password)) => put(pairs, "password", password),
            Ok(None) => {}
            Err(note) => notes.push(note),
        }
    }
    pairs.remove("passfile");
    Ok(notes)
}

/// The pairs as a connection string.
pub(crate) fn to_string(pairs: &Pairs) -> String {
    let quoted = |value: &str| format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"));
    let words: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        parse(text).map_or_else(|e| format!("error: {e}"), |pairs| to_string(&pairs))
    }

    #[test]
    fn both_forms_are_read_as_libpq_does() {
        let check = |text: &str, expect: &str| assert_eq!(shown(text), expect, "{text}");
        check(
            "postgresql://u:p%20w@h:5433/d?sslmode=verify-full&application_name=a",
            "application_name='a' dbname='d' host='h' password='p w' port='5433' sslmode='verify-full' user='u'",
        );
        check("postgres://%2Frun%2Fpg/d", "dbname='d' host='/run/pg'");
        check("postgresql://u@[::1]:5432,b/", "host='::1,b' port='5432,' user='u'");
        check("postgresql:///d?host=/run/pg&ssl=true", "dbname='d' host='/run/pg' sslmode='require'");
        check(r"host = h password='a\'b c\\' user=\ x", r"host='h' password='a\'b c\\' user=' x'");
        check("", "");
        check("host=h gssencmode=disable", "host='h'");
        for bad in ["host", "postgresql://u@h/d?x", "password='geheim", "postgresql://u:%zz@h", "postgresql://[::1"] {
            assert!(shown(bad).starts_with("error: ") && !shown(bad).contains("geheim"), "{bad}");
        }
    }

    #[test]
    fn what_is_written_counts_before_a_service_and_that_before_the_environment() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("services");
        std::fs::write(&file, "# ours\n[lab]\nhost=db1\nport=5433\nuser=lab\n\n[other]\nhost=db2\n").expect("written");
        let variables = [("PGSERVICE", "lab"), ("PGUSER", "env"), ("PGDATABASE", "results"), ("PGPORT", "1")];
        let mut around = Surroundings::of(&variables);
        around.set("PGSERVICEFILE", &file.display().to_string());
        let mut pairs = parse("port=5444").expect("a string");
        assert!(complete(&mut pairs, &around).expect("a service").is_empty());
        assert_eq!(to_string(&pairs), "dbname='results' host='db1' port='5444' user='lab'");
        let mut pairs = parse("service=none").expect("a string");
        let refused = complete(&mut pairs, &around).expect_err("no such service").to_string();
        assert!(refused.contains("service `none`") && refused.contains("is not defined"), "{refused}");
    }
}
