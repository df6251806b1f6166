//! Names of hosts: what stands behind `ssh:`.

use holdup_model::Problem;
use std::fmt;

/// A host as `ssh` takes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// A name, an alias of the user's configuration, or an address without brackets; with `USER@` before it.
    host: String,
    port: Option<u16>,
}

const HINT: &str =
    "ssh:HOST, ssh:USER@HOST, ssh://USER@HOST:PORT or ssh:[2001:db8::1]:PORT; several with commas between";

/// Reads hosts with commas between, each with or without `ssh:` before it.
///
/// # Errors
/// When one is none, or stands there twice.
pub fn hosts(text: &str) -> Result<Vec<Address>, Problem> {
    let mut all: Vec<Address> = Vec::new();
    for word in text.split(',') {
        let address = Address::parse(word.trim())?;
        if all.contains(&address) {
            return Err(Problem::usage(format!("host {address}"), "it is named twice").hint("name each host once"));
        }
        all.push(address);
    }
    Ok(all)
}

impl Address {
    /// Reads one host, with or without `ssh:` before it.
    ///
    /// # Errors
    /// When it is none, or begins like an option.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let wrong = |why: &str| Err(Problem::usage(format!("host `{text}`"), why).hint(HINT));
        let rest = text.strip_prefix("ssh:").unwrap_or(text);
        let rest = rest.strip_prefix("//").unwrap_or(rest).trim_end_matches('/');
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        let (name, port) = match place.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((name, "")) => (name, None),
            Some((name, port)) => match port.strip_prefix(':') {
                Some(port) => (name, Some(port)),
                None => return wrong("only a port may follow the brackets"),
            },
            // More than one colon is an address of IPv6.
            None => match place.split_once(':') {
                Some((name, port)) if !port.contains(':') => (name, Some(port)),
                _ => (place, None),
            },
        };
        let port = match port.map(str::parse) {
            None => None,
            Some(Ok(0) | Err(_)) => return wrong("the port is no number from 1 to 65535"),
            Some(Ok(port)) => Some(port),
        };
        let plain = |part: &str| {
            !part.is_empty()
                && !part.starts_with('-')
                && part.chars().all(|c| c.is_ascii_graphic() && !"'\"`$\\;&|<>()[]!/".contains(c))
        };
        if !plain(name) || user.is_some_and(|user| !plain(user)) {
            return wrong("it is no name of a host");
        }
        let host = user.map_or_else(|| name.to_owned(), |user| format!("{user}@{name}"));
        Ok(Address { host, port })
    }

    /// The words that name it on the command line of `ssh`.
    pub(crate) fn words(&self) -> Vec<String> {
        let port = self.port.map(|port| ["-p".to_owned(), port.to_string()]);
        // What follows `--` is no option.
        port.into_iter().flatten().chain(["--".to_owned(), self.host.clone()]).collect()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) if self.host.contains(':') => {
                let (user, name) = self.host.rsplit_once('@').map_or(("", &*self.host), |(user, name)| (user, name));
                let at = if user.is_empty() { "" } else { "@" };
                write!(f, "{user}{at}[{name}]:{port}")
            }
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_as_openssh_names_them() {
        for (text, words, shown) in [
            ("db1", "-- db1", "db1"),
            ("ssh:me@db1", "-- me@db1", "me@db1"),
            ("ssh://me@db1:2222/", "-p 2222 -- me@db1", "me@db1:2222"),
            ("db1:22", "-p 22 -- db1", "db1:22"),
            ("::1", "-- ::1", "::1"),
            ("[::1]", "-- ::1", "::1"),
            ("ssh:me@[fe80::1%eth0]:2200", "-p 2200 -- me@fe80::1%eth0", "me@[fe80::1%eth0]:2200"),
        ] {
            let address = Address::parse(text).expect(text);
            assert_eq!((address.words().join(" ").as_str(), address.to_string().as_str()), (words, shown), "{text}");
            assert_eq!(Address::parse(shown), Ok(address), "what is shown can be read");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "-oProxyCommand=x",
            "ssh:",
            "me@",
            "@db1",
            "db1:0",
            "db1:99999",
            "[::1]x",
            "a b",
            "a;b",
            "a$(b)",
            "[::1",
            "me@-x",
        ] {
            assert!(Address::parse(text).is_err(), "`{text}`");
        }
        assert!(hosts("a,b,a").is_err_and(|p| p.why == "it is named twice"));
        assert_eq!(hosts("a, ssh:b").map(|all| all.len()), Ok(2));
    }
}
