//! A real sshd of the test's own on loopback, and the configuration of a client for it.

use super::Sandbox;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SSHD: &str = "/usr/sbin/sshd";

/// Why this machine can run no sshd of a test.
pub(crate) fn missing() -> Option<String> {
    if !super::is_root() {
        return Some("sshd and the knobs of its host need root".to_owned());
    }
    let there = Path::new(SSHD).is_file() && Command::new("ssh").arg("-V").output().is_ok();
    (!there).then(|| "there is no sshd or no ssh (Debian: apt-get install openssh-server openssh-client)".to_owned())
}

/// A server with its keys, which ends with this value.
pub(crate) struct Sshd {
    child: Child,
    folder: PathBuf,
    pub(crate) port: u16,
}

fn key(path: &Path) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
    assert!(made.expect("ssh-keygen").success());
}

impl Sshd {
    /// Starts one in a new folder of the sandbox, for the user of the test, at this address; `more` is added to its configuration.
    /// The home folder and holdup's folders of its sessions are in there too.
    pub(crate) fn start(place: &Sandbox, name: &str, address: &str, more: &str) -> Sshd {
        let folder = place.path(name);
        for below in ["home", "state"] {
            std::fs::create_dir_all(folder.join(below)).expect("a fresh folder");
        }
        let at = |file: &str| folder.join(file).display().to_string();
        key(&folder.join("host_key"));
        key(&folder.join("user_key"));
        std::fs::copy(folder.join("user_key.pub"), folder.join("authorized_keys")).expect("a key");
        std::fs::create_dir_all("/run/sshd").expect("the folder of privilege separation");
        let port = TcpListener::bind((address.trim_matches(['[', ']']), 0))
            .expect("a port")
            .local_addr()
            .expect("bound")
            .port();
        let listen = if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
        let config = format!(
            "ListenAddress {listen}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nLogLevel ERROR\nMaxStartups 200\n\
             MaxSessions 200\nSetEnv HOME={} HOLDUP_STATE_DIR={} XDG_CACHE_HOME={}\n{more}\n",
            at("host_key"),
            at("authorized_keys"),
            at("home"),
            at("state"),
            at("home/.cache"),
        );
        std::fs::write(folder.join("sshd_config"), config).expect("a configuration");
        let log = std::fs::File::create(folder.join("sshd.log")).expect("a log");
        let child = Command::new(SSHD)
            .args(["-D", "-e", "-f"])
            .arg(folder.join("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("sshd");
        let sshd = Sshd { child, folder, port };
        let until = Instant::now() + Duration::from_secs(30);
        while std::net::TcpStream::connect((address.trim_matches(['[', ']']), port)).is_err() {
            assert!(Instant::now() < until, "sshd did not start: {}", sshd.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        sshd
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("sshd.log")).unwrap_or_default()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A client's configuration for these names of the server; `more` stands first for each.
    pub(crate) fn config(&self, names: &str, address: &str, more: &str) -> String {
        let known = self.folder.join("known_hosts");
        let key = std::fs::read_to_string(self.folder.join("host_key.pub")).expect("a key");
        std::fs::write(&known, format!("the-host {key}")).expect("writable");
        format!(
            "Host {names}\n{more}\n  HostName {address}\n  Port {}\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n  HostKeyAlias the-host\n",
            self.port,
            self.folder.join("user_key").display(),
            known.display(),
        )
    }

    /// The copies of holdup on the host.
    pub(crate) fn copies(&self) -> Vec<PathBuf> {
        let folder = self.folder.join("home/.cache/holdup/bin");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.map(|file| file.path()).collect()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// `HOLDUP_SSH` for a configuration, which is written into the sandbox.
pub(crate) fn client(place: &Sandbox, config: &str) -> String {
    format!("ssh -F {}", place.write("ssh_config", config).display())
}
