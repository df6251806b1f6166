//! The way into a temporary server from the hosts that make its load.

use crate::sql;
use holdup_files::{Folder, random_name};
use holdup_load::client_hosts;
use holdup_model::Problem;
use holdup_model::ends::{ServiceAccess, Token};
use holdup_sql::Config;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

/// The roles that loads of other hosts connect as begin with this; their number follows.
const ROLE: &str = "holdup_load_";

/// A server listens at one address, and one address of each client host may connect.
#[derive(Debug)]
pub(crate) struct Network {
    /// Where the server listens.
    pub(crate) at: SocketAddr,
    clients: Vec<Admitted>,
}

/// A client host, which has its role.
#[derive(Debug)]
struct Admitted {
    from: IpAddr,
    role: String,
    password: String,
}

impl Network {
    /// With a free port of this address, and a password of this run for each client host.
    ///
    /// # Errors
    /// When it is no address of this host.
    pub(crate) fn new(server: IpAddr, clients: &[IpAddr]) -> Result<Self, Problem> {
        let listener = client_hosts::listen("PostgreSQL", server)?;
        let at = listener.local_addr().map_err(|e| Problem::host(format!("PostgreSQL at {server}"), e.to_string()))?;
        // 80 random bits each.
        let random = || random_name().map_err(|e| Problem::host("a password", e.to_string()));
        let admitted = |(from, at): (&IpAddr, u32)| {
            Ok(Admitted { from: *from, role: format!("{ROLE}{at}"), password: random()? + &random()? })
        };
        Ok(Network { at, clients: clients.iter().zip(1..).map(admitted).collect::<Result<_, Problem>>()? })
    }

    /// Lets in who is on this host by the socket, whose folder is private, and each client host as its role.
    pub(crate) fn write_hba(&self, data: &Folder) -> io::Result<()> {
        let mut file = data.open_to_write("pg_hba.conf")?;
        file.set_len(0)?;
        writeln!(file, "local all all trust")?;
        for Admitted { from, role, .. } in &self.clients {
            let bits = if from.is_ipv4() { 32 } else { 128 };
            writeln!(file, "host all {role} {from}/{bits} scram-sha-256")?;
        }
        Ok(())
    }

    /// Makes the roles.
    pub(crate) fn create_roles(&self, config: &Config) -> Result<(), Problem> {
        let mut client = sql::connect(config)?;
        let settings = ["SET log_statement = 'none'", "SET password_encryption = 'scram-sha-256'"].map(str::to_owned);
        let role = |of: &Admitted| format!("CREATE ROLE {} LOGIN PASSWORD {}", of.role, sql::literal(&of.password));
        for statement in settings.into_iter().chain(self.clients.iter().map(role)) {
            sql::rows(&mut client, &statement)?;
        }
        Ok(())
    }

    /// Lets the roles read and write the tables of a database.
    pub(crate) fn grant(&self, config: &Config) -> Result<(), Problem> {
        let mut client = sql::connect_patiently(config)?;
        let roles: Vec<&str> = self.clients.iter().map(|of| of.role.as_str()).collect();
        sql::rows(&mut client, &format!("GRANT ALL ON ALL TABLES IN SCHEMA public TO {}", roles.join(", "))).map(drop)
    }

    /// How each client host connects.
    pub(crate) fn access(&self) -> impl Iterator<Item = ServiceAccess> {
        let access =
            |(of, number): (&Admitted, u32)| ServiceAccess { at: self.at, number, token: Token(of.password.clone()) };
        self.clients.iter().zip(1..).map(access)
    }
}

/// How a client host connects to a database of the temporary server. Of the host under test it has an address, which was checked, and
/// a password, which can say nothing else.
///
/// # Errors
/// When the password has a character that a connection string gives a meaning.
pub(crate) fn url_of(access: &ServiceAccess, database: &str) -> Result<String, Problem> {
    let ServiceAccess { at, number, token: Token(password) } = access;
    if password.is_empty() || !password.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(Problem::host("the host under test", "its password is not of letters and digits"));
    }
    let (ip, port) = (at.ip(), at.port());
    Ok(format!("host={ip} port={port} user={ROLE}{number} password={password} dbname={database} sslmode=disable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_says_nothing_else_of_a_connection() {
        let url = |password: &str| {
            let access =
                ServiceAccess { at: ([10, 0, 0, 5], 5433).into(), number: 2, token: Token(password.to_owned()) };
            url_of(&access, "pgbench_s1_f100").ok()
        };
        let expect = "host=10.0.0.5 port=5433 user=holdup_load_2 password=a1 dbname=pgbench_s1_f100 sslmode=disable";
        assert_eq!(url("a1").as_deref(), Some(expect));
        for password in ["", "a host=/run/postgresql", "a'", "a\\", "ä"] {
            assert_eq!(url(password), None, "{password}");
        }
    }
}
