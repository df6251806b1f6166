//! The way into a temporary server from the hosts that make its load.

use crate::sql;
use holdup_files::{Folder, random_name};
use holdup_load::client_hosts;
use holdup_model::Problem;
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

    /// How each client host connects. Holds the passwords.
    pub(crate) fn urls(&self, database: &str) -> impl Iterator<Item = String> {
        let (ip, port) = (self.at.ip(), self.at.port());
        self.clients.iter().map(move |Admitted { role, password, .. }| {
            format!("host={ip} port={port} user={role} password={password} dbname={database} sslmode=disable")
        })
    }
}
