//! Programs that look like servers, of a user who wants root to read for them.

use holdup_host::Host;
use holdup_model::survey::{Reading, Server};
use holdup_survey::postgres::{Asked, servers};
use holdup_testkit::ignore;
use rustix::fs::{CWD, FileType, mknodat};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

const STRANGER: u32 = 54_321;
const SECRET: &str = "root_password = hunter2";

/// A program called `postgres` that sleeps, with a data directory, both of a user who is not root.
struct Fake {
    top: tempfile::TempDir,
    data: PathBuf,
    process: Child,
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

impl Fake {
    /// `None` for an ordinary user.
    fn begin() -> Self {
        if !holdup_testkit::is_root() {
            ignore("only root can begin a program of another user");
        }
        let top = tempfile::tempdir().unwrap();
        fs::set_permissions(top.path(), Permissions::from_mode(0o755)).unwrap();
        let (program, data) = (top.path().join("postgres"), top.path().join("data"));
        let sleep = ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|path| Path::new(path).exists());
        fs::copy(sleep.expect("sleep is there"), &program).unwrap();
        fs::create_dir(&data).unwrap();
        chown(&data, Some(STRANGER), Some(STRANGER)).unwrap();
        fs::write(data.join("PG_VERSION"), "17\n").unwrap();
        let mut command = Command::new(program);
        let process = command.arg("600").current_dir(&data).uid(STRANGER).gid(STRANGER).spawn().unwrap();
        Fake { top, data, process }
    }

    fn configure(&self, text: &str) {
        fs::write(self.data.join("postgresql.conf"), text).unwrap();
    }

    fn secret(&self) -> PathBuf {
        let secret = self.top.path().join("secret.conf");
        fs::write(&secret, SECRET).unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        secret
    }

    fn look(&self, host: &Host) -> Server {
        let found = servers(host, Some(&Asked::Pid(self.process.id())), None);
        let mut all = found.value.unwrap_or_else(|| panic!("{:?}", found.why_unknown));
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }
}

fn why<T>(known: &Reading<T>) -> &str {
    known.why_unknown.as_deref().expect("it is not known")
}

fn a_server_of_another_user_is_understood() {
    let fake = Fake::begin();
    fake.configure("max_connections = 77\ninclude 'more.conf'\n");
    fs::write(fake.data.join("more.conf"), "shared_buffers = 1GB\n").unwrap();
    let server = fake.look(&Host::real());
    assert_eq!((server.major_version.value(), server.max_connections.value()), (Some(17), Some(77)), "{server:#?}");
    // Its folder need not be named by its pid, nor run.
    let folder = Asked::DataDirectory(fake.data.to_str().unwrap().to_owned());
    let found = servers(&Host::real(), Some(&folder), None).value.unwrap();
    assert_eq!(found[0].pid.value(), Some(fake.process.id()));
}

fn what_its_user_may_not_read_is_not_read_nor_captured() {
    let fake = Fake::begin();
    let secret = fake.secret();
    fs::write(fake.data.join("mine.conf"), "max_connections = 77\n").unwrap();
    fs::set_permissions(fake.data.join("mine.conf"), Permissions::from_mode(0o600)).unwrap();
    chown(fake.data.join("mine.conf"), Some(STRANGER), None).unwrap();
    symlink(&secret, fake.data.join("link.conf")).unwrap();
    let by_name = format!("include '{}'\ninclude 'mine.conf'\n", secret.display());
    for text in [by_name.as_str(), "include 'link.conf'\ninclude 'mine.conf'\n"] {
        fake.configure(text);
        let tree = fake.top.path().join(format!("tree-{}", text.len()));
        let host = Host::capturing(&tree).unwrap();
        let server = fake.look(&host);
        assert!(why(&server.shared_buffers_bytes).contains("permission denied"), "{server:#?}");
        assert_eq!(server.max_connections.value(), Some(77), "what the user alone may read is read");
        host.write_capture().unwrap();
        assert_eq!(fs::symlink_metadata(&tree).unwrap().permissions().mode(), 0o100_600);
        let text = fs::read_to_string(&tree).unwrap();
        assert!(!text.contains(SECRET), "{text}");
        let data = fake.data.strip_prefix("/").unwrap().display();
        assert!(text.contains(&format!("-- {data}/mine.conf --\nmax_connections = 77\n")), "{text}");
        assert!(text.to_ascii_lowercase().contains(" ! permission denied --\n"), "{text}");
        // What is judged from the copies is what was judged here.
        let again = fake.look(&Host::captured(&tree).unwrap());
        assert_eq!(again.shared_buffers_bytes, server.shared_buffers_bytes);
        assert_eq!(again.max_connections, server.max_connections);
        assert_eq!(again.major_version, server.major_version);
    }
}

fn a_capture_writes_its_own_file_alone() {
    let fake = Fake::begin();
    // Captured as a link before: a copy below it would lie in the user's folder, or where links in that lead.
    let pid = fake.process.id();
    fake.configure(&format!("max_connections = 77\ninclude '/proc/{pid}/cwd/mine.conf'\n"));
    let mine = fake.data.join("mine.conf");
    fs::write(&mine, "port = 1\n").unwrap();
    fs::File::options().write(true).open(&mine).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let host = Host::capturing(&fake.top.path().join("tree")).unwrap();
    fake.look(&host);
    host.write_capture().unwrap();
    assert_eq!(
        fs::metadata(&mine).unwrap().modified().unwrap(),
        std::time::UNIX_EPOCH,
        "root wrote {}",
        mine.display()
    );
}

fn a_program_of_root_is_no_server() {
    let mut fake = Fake::begin();
    fake.configure("max_connections = 77\n");
    // As sudo(8) is where a user begins it by a link of this name: root's process, in a folder and with arguments of
    // that user.
    fake.process.kill().unwrap();
    fake.process.wait().unwrap();
    fake.process = Command::new(fake.top.path().join("postgres")).arg("600").current_dir(&fake.data).spawn().unwrap();
    let server = fake.look(&Host::real());
    assert!(why(&server.max_connections).contains("it runs as root"), "{server:#?}");
    assert!(why(&server.major_version).contains("it runs as root"), "{server:#?}");
}

fn nothing_but_regular_files_of_bounded_size_is_read() {
    let fake = Fake::begin();
    mknodat(CWD, fake.data.join("fifo.conf"), FileType::Fifo, 0o666.into(), 0).unwrap();
    let large = fs::File::create(fake.data.join("large.conf")).unwrap();
    large.set_len(60 << 20).unwrap();
    // In memory, where there is such a place: a disk takes long for that number.
    let full = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    fs::set_permissions(full.path(), Permissions::from_mode(0o755)).unwrap();
    for n in 0..100_000 {
        fs::write(full.path().join(format!("{n}.txt")), "").unwrap();
    }
    let include_full = format!("include_dir '{}'", full.path().display());
    for (text, expect) in [
        ("include 'fifo.conf'", "it is a FIFO, not a regular file"),
        ("include '/dev/zero'", "it is a character device, not a regular file"),
        ("include 'large.conf'", "it has more than 1048576 bytes"),
        ("include '.'", "it is a folder, not a regular file"),
        (include_full.as_str(), "it has more than 4096 entries"),
    ] {
        fake.configure(&format!("max_connections = 77\n{text}\n"));
        let server = fake.look(&Host::real());
        assert!(why(&server.shared_buffers_bytes).contains(expect), "{text}: {server:#?}");
        assert_eq!(server.major_version.value(), Some(17));
    }
    fs::remove_file(fake.data.join("postgresql.conf")).unwrap();
    mknodat(CWD, fake.data.join("postgresql.conf"), FileType::Fifo, 0o666.into(), 0).unwrap();
    assert!(why(&fake.look(&Host::real()).max_connections).contains("it is a FIFO"));
}

fn more_than_is_read_of_a_server_is_not_known() {
    let fake = Fake::begin();
    // Each includes the next twice, so that without a bound 32 files of 1 MiB are read.
    for n in 0..5 {
        let next = format!("include '{}.conf'\n", n + 1);
        fs::write(fake.data.join(format!("{n}.conf")), format!("{next}{next}")).unwrap();
    }
    fs::write(fake.data.join("5.conf"), "#".repeat(1 << 20)).unwrap();
    fake.configure("include '0.conf'\n");
    let server = fake.look(&Host::real());
    assert!(why(&server.shared_buffers_bytes).contains("it has more than"), "{server:#?}");
    // Entries take more memory than the lines that they stand in.
    fake.configure(&"a=1\n".repeat(200_000));
    let server = fake.look(&Host::real());
    assert!(why(&server.shared_buffers_bytes).contains("more settings than are read"), "{server:#?}");
    fake.configure(&"shared_buffers = 1GB\n".repeat(1000));
    let server = fake.look(&Host::real());
    assert!(server.notes.iter().all(|note| note.len() < 4096), "{server:#?}");
    assert!(server.notes[0].ends_with(" and 991 more."), "{server:#?}");
}

fn the_folder_of_a_server_that_does_not_run_is_read_as_its_owner() {
    let fake = Fake::begin();
    let folder = fake.top.path().join("stopped");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("PG_VERSION"), "17\n").unwrap();
    fs::write(folder.join("postmaster.opts"), "/usr/lib/postgresql/17/bin/postgres \"-D\" \"/x\"\n").unwrap();
    fs::write(folder.join("postgresql.conf"), format!("include '{}'\n", fake.secret().display())).unwrap();
    let asked = Asked::DataDirectory(folder.to_str().unwrap().to_owned());
    let look = || servers(&Host::real(), Some(&asked), None);
    chown(&folder, Some(STRANGER), None).unwrap();
    let server = look().value.unwrap().remove(0);
    assert_eq!(server.major_version.value(), Some(17));
    let why_not = why(&server.shared_buffers_bytes);
    assert!(why_not.contains("/x/postgresql.conf") || why_not.contains("permission denied"), "{server:#?}");
    // Root's own folder is read as root, unless another user can put another one in its place.
    chown(&folder, Some(0), None).unwrap();
    let server = look().value.unwrap().remove(0);
    assert_eq!(server.major_version.value(), Some(17));
    let inside = fake.data.join("inside");
    fs::rename(&folder, &inside).unwrap();
    let asked = Asked::DataDirectory(inside.to_str().unwrap().to_owned());
    let refused = servers(&Host::real(), Some(&asked), None);
    assert!(why(&refused).contains("belongs to the user with id 54321"), "{refused:?}");
}

holdup_testkit::tests!(
    a_server_of_another_user_is_understood,
    what_its_user_may_not_read_is_not_read_nor_captured,
    a_capture_writes_its_own_file_alone,
    a_program_of_root_is_no_server,
    nothing_but_regular_files_of_bounded_size_is_read,
    more_than_is_read_of_a_server_is_not_known,
    the_folder_of_a_server_that_does_not_run_is_read_as_its_owner
);
