//! A PostgreSQL server that is watched, and a load on it.

use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_load::Cancel;
use holdup_postgres::find::{Need, SearchPath};
use holdup_postgres::{Binaries, Cluster, ClusterOptions};
use holdup_testkit::ignore;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// A private cluster with the tables of pgbench.
pub(crate) struct Server {
    pub(crate) cluster: Cluster,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> Server {
        let folder = tempfile::Builder::new().prefix("hx-").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        holdup_testkit::needs_a_user_for_postgres();
        let found = Binaries::find(&SearchPath::of_this_host(None), Need::Server);
        let bin = found.unwrap_or_else(|problem| ignore(problem));
        let workdir = folder.path().to_owned();
        let options = ClusterOptions { bin, workdir, max_clients: 32, network: None, cancel: Cancel::default() };
        let cluster = Cluster::create(&Host::real(), &options).unwrap();
        let server = Server { cluster, _folder: folder };
        let made = server.pgbench(&["-i", "-s", "1", "-q"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server
    }

    pub(crate) fn url(&self) -> String {
        self.cluster.connection_string()
    }

    /// pgbench with these arguments against it.
    pub(crate) fn pgbench(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.cluster.bin().program("pgbench"));
        command.args(args).arg(self.url()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A load that ends by itself.
    pub(crate) fn load(&self, seconds: &str) -> Load {
        Load(self.pgbench(&["-c", "6", "-n", "-T", seconds]).spawn().unwrap())
    }
}

/// A load, which ends with the test.
pub(crate) struct Load(pub(crate) Child);

impl Load {
    #[allow(dead_code, reason = "each test file uses its share of these")]
    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended.
        let _gone = self.0.kill();
        self.0.wait().unwrap();
    }
}
