//! The way into a temporary server from one other host.

use crate::sql;
use holdup_files::{Folder, random_name};
use holdup_load::client_host;
use holdup_model::Problem;
use holdup_sql::Config;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

/// The role that loads of the other host connect as.
const ROLE: &str = "holdup_load";

/// A server listens at one address, and one other address may connect.
#[derive(Debug)]
pub(crate) struct Network {
    /// Where the server listens.
    pub(crate) at: SocketAddr,
    client: IpAddr,
    password: String,
}

impl Network {
    /// With a free port of this address, and a password of this run.
    ///
    /// # Errors
    /// When it is no address of this host.
    pub(crate) fn new(server: IpAddr, client: IpAddr) -> Result<Self, Problem> {
        let listener = client_host::listen("PostgreSQL", server)?;
        let at = listener.local_addr().map_err(|e| Problem::host(format!("PostgreSQL at {server}"), e.to_string()))?;
        // 80 random bits each.
        let random = || random_name().map_err(|e| Problem::host("a password", e.to_string()));
        Ok(Network { at, client, password: random()? + &random()? })
    }

    /// Lets in who is on this host by the socket, whose folder is private, and the client host with its password.
    pub(crate) fn write_hba(&self, data: &Folder) -> io::Result<()> {
        let bits = if self.client.is_ipv4() { 32 } else { 128 };
        let mut file = data.open_to_write("pg_hba.conf")?;
        file.set_len(0)?;
        writeln!(file, "local all all trust\nhost all {ROLE} {}/{bits} scram-sha-256", self.client)
    }

    /// Makes the role.
    pub(crate) fn create_role(&self, config: &Config) -> Result<(), Problem> {
        let mut client = sql::connect(config)?;
        for statement in [
            "SET log_statement = 'none'".to_owned(),
            "SET password_encryption = 'scram-sha-256'".to_owned(),
            format!("CREATE ROLE {ROLE} LOGIN PASSWORD {}", sql::literal(&self.password)),
        ] {
            sql::rows(&mut client, &statement)?;
        }
        Ok(())
    }

    /// Lets the role read and write the tables of a database.
    pub(crate) fn grant(&self, config: &Config) -> Result<(), Problem> {
        let mut client = sql::connect_patiently(config)?;
        sql::rows(&mut client, &format!("GRANT ALL ON ALL TABLES IN SCHEMA public TO {ROLE}")).map(drop)
    }

    /// How the client host connects. Holds the password.
    pub(crate) fn url(&self, database: &str) -> String {
        let (ip, port, password) = (self.at.ip(), self.at.port(), &self.password);
        format!("host={ip} port={port} user={ROLE} password={password} dbname={database} sslmode=disable")
    }
}
