//! Servers and trees that another user has made to lead root's `check` astray.

use crate::common;
use common::{Sandbox, is_root, texts};
use holdup_testkit::ignore;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// The user who leads astray.
const STRANGER: u32 = 54_321;

/// A program of another user that is called postgres and only sleeps, in its own data folder.
struct FakeServer {
    child: Child,
}

impl FakeServer {
    fn start(place: &Sandbox, settings: &str) -> Self {
        let data = place.path("data");
        std::fs::create_dir(&data).expect("made");
        std::fs::write(data.join("postgresql.conf"), settings).expect("written");
        std::fs::write(data.join("PG_VERSION"), "15\n").expect("written");
        let program = place.path("postgres");
        std::fs::copy("/bin/sleep", &program).expect("copied");
        for path in [&place.path("."), &data] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("ours");
        }
        for path in [&data, &data.join("postgresql.conf")] {
            chown(path, Some(STRANGER), Some(STRANGER)).expect("root may");
        }
        let child = Command::new(&program).arg("600").uid(STRANGER).gid(STRANGER).current_dir(&data).spawn();
        FakeServer { child: child.expect("started") }
    }

    fn check(&self, place: &Sandbox, more: &[&str]) -> String {
        let pid = self.child.id().to_string();
        let output = place.output(&[&["check", "--pg", &pid], more].concat());
        let (out, err) = texts(&output);
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{out}{err}");
        assert!(!err.contains("panicked"), "{err}");
        out
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn root_reads_for_no_user_what_that_user_could_not_read() {
    if !is_root() {
        ignore("only root can be led astray so");
    }
    let place = Sandbox::new();
    let secret = place.write("secret.conf", "shared_buffers = '77MB'  # hunter2\n");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).expect("ours");
    let server = FakeServer::start(&place, &format!("max_connections = 7\ninclude '{}'\n", secret.display()));
    let file = place.path("captured.tree");
    let out = server.check(&place, &["--capture", &file.display().to_string()]);
    assert!(!out.contains("77MB") && !out.contains("hunter2"), "{out}");
    let captured = std::fs::read_to_string(&file).expect("ours");
    assert!(captured.contains("/data/postgresql.conf --\n") && !captured.contains("hunter2"), "{captured}");
    assert_eq!(std::fs::symlink_metadata(&file).expect("there").permissions().mode(), 0o100_600);
}

fn what_is_no_file_of_settings_is_not_waited_for() {
    if !is_root() {
        ignore("only root can be led astray so");
    }
    let place = Sandbox::new();
    let fifo = place.path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("made");
    let large = place.write("large.conf", &"work_mem = 1\n".repeat(5_000_000));
    let crowd = place.path("crowd");
    std::fs::create_dir(&crowd).expect("made");
    for number in 0..20_000 {
        std::fs::write(crowd.join(format!("{number}.conf")), "").expect("written");
    }
    let settings = format!(
        "include_dir '{}'\ninclude '{}'\ninclude '/dev/zero'\ninclude '/dev/full'\ninclude '{}'\n",
        crowd.display(),
        large.display(),
        fifo.display()
    );
    let server = FakeServer::start(&place, &settings);
    let out = server.check(&place, &["--json"]);
    let document: serde_json::Value = serde_json::from_str(&out).expect("one JSON document");
    assert!(document.to_string().contains("it is a FIFO, not a regular file"), "{out}");
    // The same as a folder that does not run.
    drop(server);
    let data = place.path("data");
    std::fs::remove_file(data.join("PG_VERSION")).expect("there");
    symlink(&fifo, data.join("PG_VERSION")).expect("planted");
    let output = place.output(&["check", "--pg", &data.display().to_string()]);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{:?}", texts(&output));
}

fn a_tree_is_never_more_than_files() {
    let place = Sandbox::new();
    let tree = place.path("tree");
    std::fs::create_dir_all(tree.join("proc")).expect("made");
    mknodat(CWD, tree.join("unreadable"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("made");
    mknodat(CWD, tree.join("proc/stat"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("made");
    symlink("/dev/zero", tree.join("proc/meminfo")).expect("planted");
    let check = || {
        let output = place.output(&["check", "--root", "tree"]);
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{:?}", texts(&output));
        texts(&output).0
    };
    check();
    std::fs::remove_file(tree.join("unreadable")).expect("there");
    symlink("/dev/zero", tree.join("unreadable")).expect("planted");
    check();
    // More servers than any host has.
    for pid in 10..3_000 {
        let process = tree.join(format!("proc/{pid}"));
        std::fs::create_dir(&process).expect("made");
        let stat = format!("{pid} (postgres) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n");
        std::fs::write(process.join("stat"), stat).expect("written");
        std::fs::write(process.join("cmdline"), "postgres\0-D\0/data\0").expect("written");
    }
    let output = place.output(&["check", "--root", "tree", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let servers = &document["survey"]["servers"];
    assert_eq!(servers["value"].as_array().map(Vec::len), Some(64));
    assert!(servers.to_string().contains("2926 more servers"), "the last one says it");
}

holdup_testkit::tests!(
    root_reads_for_no_user_what_that_user_could_not_read,
    what_is_no_file_of_settings_is_not_waited_for,
    a_tree_is_never_more_than_files
);
