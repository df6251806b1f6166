//! Connections with TLS, client certificates, services and password files, to a real server with certificates that are made here.

use crate::common;
use common::{run, write};
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_model::kept::KeptFilter;
use holdup_postgres::find::{Need, SearchPath};
use holdup_postgres::{Binaries, External, RunAs};
use holdup_sql::{Client, Config};
use holdup_store::{Incoming, Place, open};
use holdup_testkit::ignore;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A server with TLS on a port of the loopback interface; it ends with the value.
struct Server {
    child: Child,
    port: u16,
    folder: PathBuf,
    user: Option<RunAs>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn openssl(folder: &Path, words: &str) {
    let output = Command::new("openssl").args(words.split(' ')).current_dir(folder).output();
    let output = output.unwrap_or_else(|e| ignore(format!("openssl cannot be started: {e}")));
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A certificate signed by `ca`, with its key.
fn certificate(folder: &Path, name: &str, subject: &str, extension: &str, ca: &str) {
    fs::write(folder.join(format!("{name}.ext")), extension).unwrap();
    openssl(
        folder,
        &format!("req -new -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={subject}"),
    );
    openssl(
        folder,
        &format!(
            "x509 -req -in {name}.csr -CA {ca}.crt -CAkey {ca}.key -CAcreateserial -out {name}.crt -days 2 -extfile {name}.ext"
        ),
    );
}

fn authority(folder: &Path, name: &str) {
    openssl(
        folder,
        &format!("req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.crt -days 2 -subj /CN={name}"),
    );
}

fn as_user(command: &mut Command, user: Option<&RunAs>) {
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
}

/// A server whose users are: `holdup`, with TLS; `certified`, by a client certificate; `worded`, by a password; `plain`, without TLS.
fn server(work: &Path) -> Server {
    fs::set_permissions(work, Permissions::from_mode(0o755)).unwrap();
    let found = Binaries::find(&SearchPath::of_this_host(None), Need::Server);
    let bin = found.unwrap_or_else(|problem| ignore(problem));
    holdup_testkit::needs_a_user_for_postgres();
    let user = RunAs::for_this_process(&Host::real()).unwrap();
    let folder = work.join("tls");
    fs::create_dir(&folder).unwrap();
    for name in ["ca", "other"] {
        authority(&folder, name);
    }
    certificate(&folder, "server", "localhost", "subjectAltName=DNS:localhost", "ca");
    certificate(&folder, "client", "certified", "extendedKeyUsage=clientAuth", "ca");
    openssl(
        &folder,
        "req -x509 -newkey rsa:2048 -nodes -keyout self.key -out self.crt -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost",
    );
    let data = work.join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o700)).unwrap();
    if let Some(user) = &user {
        for path in [&data, &folder.join("server.key"), &folder.join("self.key")] {
            chown(path, Some(user.uid), Some(user.gid)).unwrap();
        }
    }
    for key in ["server.key", "self.key", "client.key"] {
        fs::set_permissions(folder.join(key), Permissions::from_mode(0o600)).unwrap();
    }
    let mut initdb = Command::new(bin.program("initdb"));
    initdb.args(["-A", "trust", "--no-sync", "-U", "holdup", "-D"]).arg(&data).current_dir(&data);
    as_user(&mut initdb, user.as_ref());
    let made: Output = initdb.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let rules = "local all all trust\nhostssl all holdup 127.0.0.1/32 trust\nhostssl all certified 127.0.0.1/32 cert\n\
                 hostssl all worded 127.0.0.1/32 scram-sha-256\nhostnossl all plain 127.0.0.1/32 trust\n";
    fs::write(data.join("pg_hba.conf"), rules).unwrap();
    // Free when it was asked for; a server that does not get it fails the test.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut postgres = Command::new(bin.program("postgres"));
    postgres.arg("-D").arg(&data).current_dir(&data).stdout(Stdio::null()).stderr(Stdio::null());
    let settings = [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        "unix_socket_directories=".to_owned(),
        "ssl=on".to_owned(),
    ];
    for setting in &settings {
        postgres.args(["-c", setting]);
    }
    let files = format!(
        "ssl_cert_file = '{0}/server.crt'\nssl_key_file = '{0}/server.key'\nssl_ca_file = '{0}/ca.crt'\n",
        folder.display()
    );
    fs::write(data.join("postgresql.auto.conf"), files).unwrap();
    if let Some(user) = &user {
        chown(data.join("postgresql.auto.conf"), Some(user.uid), Some(user.gid)).unwrap();
    }
    as_user(&mut postgres, user.as_ref());
    let child = postgres.spawn().unwrap();
    let server = Server { child, port, folder, user };
    for _ in 0..600 {
        if connect(&server.url("holdup", "sslmode=require")).is_ok() {
            return server;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the server does not answer within a minute");
}

impl Server {
    fn url(&self, user: &str, rest: &str) -> String {
        format!("host=localhost hostaddr=127.0.0.1 port={} dbname=postgres user={user} {rest}", self.port)
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

/// True if the connection has TLS.
fn connect(text: &str) -> Result<bool, String> {
    let config = Config::of_user(text).map_err(|e| e.to_string())?;
    let mut client = Client::connect(&config).map_err(|e| e.to_string())?;
    let row =
        client.query_one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).map_err(|e| e.to_string())?;
    Ok(row.get(0))
}

fn has(result: Result<bool, String>, part: &str) {
    let error = result.expect_err(part);
    assert!(error.contains(part), "{error}");
}

fn each_mode_of_tls_is_as_strict_as_libpq_says() {
    let work = tempfile::tempdir().unwrap();
    let server = server(work.path());
    let (ca, other) = (server.file("ca.crt"), server.file("other.crt"));
    has(connect(&server.url("holdup", "sslmode=disable")), "no encryption");
    assert_eq!(connect(&server.url("holdup", "sslmode=require")), Ok(true));
    assert_eq!(connect(&server.url("holdup", "sslmode=prefer")), Ok(true));
    assert_eq!(connect(&server.url("holdup", "")), Ok(true), "prefer is the default");
    assert_eq!(connect(&server.url("holdup", "sslmode=allow")), Ok(true), "the server refuses it without");
    let mut admin = Client::connect(&Config::of_user(&server.url("holdup", "sslmode=require")).unwrap()).unwrap();
    admin.simple_query("CREATE ROLE plain LOGIN").unwrap();
    assert_eq!(connect(&server.url("plain", "sslmode=prefer")), Ok(false), "the server refuses it with TLS");
    has(connect(&server.url("plain", "sslmode=require")), "no pg_hba.conf entry");
    assert_eq!(connect(&server.url("holdup", &format!("sslmode=verify-full sslrootcert={ca}"))), Ok(true));
    assert_eq!(
        connect(
            &server.url("holdup", &format!("sslmode=verify-full sslrootcert={ca} ssl_min_protocol_version=TLSv1.3"))
        ),
        Ok(true)
    );
    let by_address = server.url("holdup", &format!("sslrootcert={ca}")).replace("host=localhost", "host=127.0.0.1");
    has(connect(&format!("{by_address} sslmode=verify-full")), "not valid for name");
    assert_eq!(connect(&format!("{by_address} sslmode=verify-ca")), Ok(true));
    for mode in ["verify-full", "verify-ca", "require"] {
        has(connect(&server.url("holdup", &format!("sslmode={mode} sslrootcert={other}"))), "UnknownIssuer");
    }
    has(connect(&server.url("holdup", "sslmode=verify-full sslrootcert=/nowhere")), "No such file");
    has(
        connect(&server.url("holdup", &format!("sslmode=verify-full sslrootcert={}", server.file("server.key")))),
        "no certificate",
    );
    has(connect(&server.url("holdup", "sslmode=require sslrootcert=system")), "sslmode=verify-full");
    has(connect(&server.url("holdup", &format!("sslmode=require sslcrl={ca}"))), "sslcrl");
    // A certificate that signed itself, which the user has as root.
    admin.simple_query(&format!("ALTER SYSTEM SET ssl_cert_file = '{}'", server.file("self.crt"))).unwrap();
    admin.simple_query(&format!("ALTER SYSTEM SET ssl_key_file = '{}'", server.file("self.key"))).unwrap();
    admin.simple_query("SELECT pg_reload_conf()").unwrap();
    let own = server.file("self.crt");
    let by_own = || connect(&server.url("holdup", &format!("sslmode=verify-full sslrootcert={own}")));
    let mut connected = by_own();
    for _ in 0..100 {
        if connected.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        connected = by_own();
    }
    assert_eq!(connected, Ok(true));
    let by_address = server.url("holdup", &format!("sslmode=verify-full sslrootcert={own}"));
    has(connect(&by_address.replace("host=localhost", "host=127.0.0.1")), "not valid for name");
    assert!(server.user.is_some() || !rustix::process::geteuid().is_root());
}

fn certificates_of_clients_passwords_and_services_are_found_as_libpq_does() {
    let work = tempfile::tempdir().unwrap();
    let server = server(work.path());
    let ca = server.file("ca.crt");
    let mut admin = Client::connect(&Config::of_user(&server.url("holdup", "sslmode=require")).unwrap()).unwrap();
    admin.simple_query("CREATE ROLE certified LOGIN").unwrap();
    admin.simple_query("CREATE ROLE worded LOGIN PASSWORD 'geheim'").unwrap();
    let (crt, key) = (server.file("client.crt"), server.file("client.key"));
    let with = |rest: &str| connect(&server.url("certified", &format!("sslmode=verify-full sslrootcert={ca} {rest}")));
    assert_eq!(with(&format!("sslcert={crt} sslkey={key}")), Ok(true));
    has(with(""), "certificate");
    has(with(&format!("sslcert={crt}")), "sslkey");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    has(with(&format!("sslcert={crt} sslkey={key}")), "(0600) or less");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let pass = server.folder.join("pass");
    fs::write(&pass, format!("localhost:{}:postgres:worded:geheim\n", server.port)).unwrap();
    fs::set_permissions(&pass, Permissions::from_mode(0o600)).unwrap();
    let worded = server.url("worded", &format!("sslmode=require channel_binding=require passfile={}", pass.display()));
    assert_eq!(connect(&worded), Ok(true));
    fs::set_permissions(&pass, Permissions::from_mode(0o644)).unwrap();
    has(connect(&worded), "group or world access");
    fs::set_permissions(&pass, Permissions::from_mode(0o600)).unwrap();
    // The environment is that of another process.
    let services = server.folder.join("services");
    fs::write(
        &services,
        format!("[lab]\nhost=localhost\nport={}\ndbname=postgres\nuser=worded\nsslmode=verify-full\n", server.port),
    )
    .unwrap();
    let child = |variables: &[(&str, &str)]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "tls::a_connection_by_the_environment"]).env("PGSERVICEFILE", &services);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let pass = pass.display().to_string();
    let by = [
        ("PGSERVICE", "lab"),
        ("PGPASSFILE", pass.as_str()),
        ("PGSSLROOTCERT", ca.as_str()),
        ("PGHOSTADDR", "127.0.0.1"),
    ];
    let (good, said) = child(&by);
    assert!(good, "{said}");
    let by_system = [
        ("PGSERVICE", "lab"),
        ("PGPASSFILE", pass.as_str()),
        ("PGSSLROOTCERT", "system"),
        ("SSL_CERT_FILE", ca.as_str()),
    ];
    let (good, said) = child(&by_system);
    assert!(good, "{said}");
    let (good, _) = child(&[("PGSERVICE", "none")]);
    assert!(!good, "a service that is not defined");
    let (good, _) = child(&by[..2]);
    assert!(!good, "verify-full without roots");
}

/// Connects with an empty string: all comes from the environment.
fn a_connection_by_the_environment() {
    assert_eq!(connect(""), Ok(true));
}

fn a_store_and_a_server_under_test_are_reached_by_tls() {
    let work = tempfile::tempdir().unwrap();
    let server = server(work.path());
    let strict = server.url("holdup", &format!("sslmode=verify-full sslrootcert={}", server.file("ca.crt")));
    let bundle = Incoming::read(&write(work.path(), &run(1, "db1", 1_000.0)), None).unwrap();
    let mut store = open(&Place::of(&strict).unwrap()).unwrap();
    store.init().unwrap();
    store.push(&bundle).unwrap();
    assert_eq!(store.list(&KeptFilter::default()).unwrap().len(), 1);
    // What `--pg` connects with, and the string that collectors get from it.
    let external = External::connect(&Host::real(), &strict).unwrap();
    assert_eq!(
        external.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").unwrap()[0],
        [Some("t".to_owned())]
    );
    let handed_on: Config = external.connection_string().parse().unwrap();
    let mut client = Client::connect(&handed_on).unwrap();
    assert!(
        client.query_one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).unwrap().get::<_, bool>(0)
    );
    let wrong = server.url("holdup", &format!("sslmode=verify-full sslrootcert={}", server.file("other.crt")));
    let refused = External::connect(&Host::real(), &wrong).unwrap_err().to_string();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
}

holdup_testkit::tests!(
    each_mode_of_tls_is_as_strict_as_libpq_says,
    certificates_of_clients_passwords_and_services_are_found_as_libpq_does,
    a_store_and_a_server_under_test_are_reached_by_tls;
    by_hand: a_connection_by_the_environment
);
