//! Connection strings without their passwords: the journal must not hold one.

/// A connection string of libpq's two forms (`postgres://…`, `host=… user=…`) without any password in it.
///
/// Where the form is doubtful more is cut away rather than less, so that the string may become useless
/// but never shows a secret.
pub fn without_password(connection: &str) -> String {
    for scheme in ["postgres://", "postgresql://"] {
        if let Some(rest) = connection.strip_prefix(scheme) {
            return format!("{scheme}{}", url(rest));
        }
    }
    keywords(connection)
}

/// What may hold a secret besides the password of the server.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // A percent sign in a name could hide any name.
    name.contains('%') || matches!(name.as_str(), "password" | "sslpassword" | "scram_client_key" | "scram_server_key")
}

fn url(rest: &str) -> String {
    let (before, query) = match rest.split_once('@') {
        // The first `@` ends the credentials, also when a `?` stands before it; what follows up to the next
        // `/` or `?` is the host, and an `@` in there belongs to a password that was not encoded.
        Some((credentials, after)) => {
            let user = credentials.split([':', '?', '/']).next().unwrap_or_default();
            let end = after.find(['/', '?']).unwrap_or(after.len());
            let host_from = after[..end].rfind('@').map_or(0, |at| at + 1);
            let after = &after[host_from..];
            let (address, query) = after.split_once('?').map_or((after, None), |(a, q)| (a, Some(q)));
            (format!("{user}@{address}"), query)
        }
        None => match rest.split_once('?') {
            Some((address, query)) => (address.to_owned(), Some(query)),
            None => (rest.to_owned(), None),
        },
    };
    let kept: Vec<&str> = query
        .unwrap_or_default()
        .split('&')
        .filter(|part| !part.is_empty() && !is_secret(part.split('=').next().unwrap_or_default()))
        .collect();
    if kept.is_empty() { before } else { format!("{before}?{}", kept.join("&")) }
}

fn keywords(text: &str) -> String {
    let mut kept = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let Some((name, after)) = rest.split_once('=') else { break };
        let value = after.trim_start();
        let end = value_end(value);
        let name = name.trim();
        if !is_secret(name) {
            kept.push(format!("{name}={}", &value[..end]));
        }
        rest = value[end..].trim_start();
    }
    kept.join(" ")
}

/// Where a value of the keyword form ends: at white space, or behind the closing quote; `\` takes the next as it is.
fn value_end(value: &str) -> usize {
    let quoted = value.starts_with('\'');
    let mut escaped = false;
    for (at, letter) in value.char_indices().skip(usize::from(quoted)) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' if quoted => return at + 1,
            _ if !quoted && letter.is_whitespace() => return at,
            _ => {}
        }
    }
    value.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn passwords_are_cut_out_and_all_else_stays() {
        let check = |given: &str, expect: &str| assert_eq!(without_password(given), expect, "{given}");
        check("host=/tmp/x user=holdup dbname=postgres", "host=/tmp/x user=holdup dbname=postgres");
        check("host=h password=secret user=u", "host=h user=u");
        check(r"host=h password='se cr\'et' user='a b'", "host=h user='a b'");
        check(r"password = se\ cret user = u", "user=u");
        check("PASSWORD=x", "");
        check("password='never closed user=u", "");
        check("postgres://u:secret@h:5432/db?sslmode=require", "postgres://u@h:5432/db?sslmode=require");
        check("postgresql://u@h/db?password=secret&application_name=a", "postgresql://u@h/db?application_name=a");
        check("postgres:///db?host=/tmp", "postgres:///db?host=/tmp");
        check("postgres://u:se@cr@h/db", "postgres://u@h/db");
        check("postgres://u:se?cr/e@h/db", "postgres://u@h/db");
        check("postgres://h1:1,h2:2/db", "postgres://h1:1,h2:2/db");
        check("postgres://h/db?%70assword=secret", "postgres://h/db");
        check("", "");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_password_survives(secret in "[A-Z]{6}[ -~]{0,8}[A-Z]{6}") {
            let quoted = secret.replace('\\', "\\\\").replace('\'', "\\'");
            let encoded: String = secret.bytes().map(|b| format!("%{b:02X}")).collect();
            for given in [
                format!("host=h password='{quoted}' user=u"),
                format!("postgres://u:{encoded}@h/db"),
                format!("postgres://h/db?password={encoded}&user=u"),
            ] {
                let kept = without_password(&given);
                prop_assert!(!kept.contains(&secret) && !kept.contains(&encoded) && !kept.contains(&secret[..6]), "{kept}");
                prop_assert!(kept.contains('h') && kept.contains('u'));
            }
        }
    }
}
