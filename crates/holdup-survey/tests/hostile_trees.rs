//! Captured trees that were made to do harm to those who look at them.
use holdup_host::Host;
use holdup_survey::postgres::servers;
use holdup_survey::survey;
use rustix::fs::{CWD, FileType, mknodat};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir_all(tree.path().join("proc")).unwrap();
    tree
}

fn put_server(tree: &Path, pid: u32, conf: &Path) {
    let folder = tree.join(format!("proc/{pid}"));
    fs::create_dir_all(&folder).unwrap();
    let stat = format!("{pid} (postgres) S 0 {pid} 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n");
    fs::write(folder.join("stat"), stat).unwrap();
    fs::write(folder.join("cmdline"), format!("postgres\0-D\0{}\0", conf.display())).unwrap();
}

fn the_list_of_unreadable_files_is_a_file_of_the_tree() {
    let secret = tempfile::tempdir().unwrap();
    fs::write(secret.path().join("list"), "/etc/x\toperation not permitted\n").unwrap();
    let check = |make: &dyn Fn(&Path)| {
        let tree = tree();
        make(&tree.path().join("unreadable"));
        let host = Host::at(tree.path());
        // Of a file that is not there the list is asked, each time.
        assert_eq!(host.read("/etc/x").unwrap_err().kind, io::ErrorKind::NotFound);
        assert!(!host.exists("/etc/x"));
        survey(&host, None, None);
    };
    check(&|path| mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).unwrap());
    check(&|path| symlink("/dev/zero", path).unwrap());
    check(&|path| symlink(secret.path().join("list"), path).unwrap());
    check(&|path| fs::create_dir(path).unwrap());
    check(&|path| fs::File::create(path).unwrap().set_len(8 << 30).unwrap());
    let listed = tree();
    fs::write(listed.path().join("unreadable"), "/etc/x\toperation not permitted\n").unwrap();
    let error = Host::at(listed.path()).read("/etc/x").unwrap_err();
    assert_eq!(error.kind, io::ErrorKind::PermissionDenied, "{error}");
}

fn what_is_no_regular_file_or_too_long_is_not_read() {
    let tree = tree();
    let etc = tree.path().join("etc");
    fs::create_dir(&etc).unwrap();
    let host = Host::at(tree.path());
    mknodat(CWD, etc.join("fifo"), FileType::Fifo, 0o600.into(), 0).unwrap();
    fs::File::create(etc.join("large")).unwrap().set_len(60 << 20).unwrap();
    let why = |path: &str| host.read(path).unwrap_err().message;
    assert_eq!(why("/etc/fifo"), "it is a FIFO, not a regular file");
    assert_eq!(why("/etc/large"), "it has more than 4194304 bytes");
    assert_eq!(host.read_head("/etc/large", 2).unwrap(), "\0\0");
    // A link leads to a place of the tree, also out of a folder in it.
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "outside").unwrap();
    symlink(outside.path(), etc.join("out")).unwrap();
    symlink(outside.path().join("file"), etc.join("link")).unwrap();
    for path in ["/etc/out/file", "/etc/link", "/../../../../../../../etc/passwd"] {
        assert!(host.read(path).is_err(), "{path}");
        assert!(host.write(path, "changed").is_err(), "{path}");
        assert!(!host.exists(path) && host.mode(path).is_err(), "{path}");
    }
    assert!(host.read_link("/etc/out/file").is_err());
    assert_eq!(host.read_link("/etc/link").unwrap(), outside.path().join("file").to_str().unwrap());
    assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), "outside");
    if mknodat(CWD, etc.join("device"), FileType::CharacterDevice, 0o600.into(), rustix::fs::makedev(1, 5)).is_ok() {
        assert_eq!(why("/etc/device"), "it is a character device, not a regular file");
    }
}

fn many_servers_are_counted_and_some_looked_at() {
    const MANY: u32 = 60_000;
    // In memory, where there is such a place: a disk takes minutes for that number.
    let tree = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    for pid in 1..=MANY {
        put_server(tree.path(), pid, Path::new("/data"));
    }
    let found = servers(&Host::at(tree.path()), None, None);
    assert!(found.source.contains("40000 processes are not looked at"), "{}", found.source);
    let found = found.value.unwrap();
    assert!(!found.is_empty() && found.len() <= 64, "{}", found.len());
    let last = &found.last().unwrap().notes;
    assert!(last.iter().any(|note| note.contains("19936 more servers are not looked at: the limit is 64")), "{last:?}");
}

fn a_configuration_of_a_tree_is_bounded() {
    let tree = tree();
    put_server(tree.path(), 7, Path::new("/data"));
    let data = tree.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("postgresql.conf"), "a=1\n".repeat(15 << 20)).unwrap();
    let found = servers(&Host::at(tree.path()), None, None).value.unwrap();
    let why = found[0].max_connections.why_unknown.as_deref().unwrap();
    assert!(why.contains("it has more than 1048576 bytes"), "{why}");
}

holdup_testkit::tests!(
    the_list_of_unreadable_files_is_a_file_of_the_tree,
    what_is_no_regular_file_or_too_long_is_not_read,
    many_servers_are_counted_and_some_looked_at,
    a_configuration_of_a_tree_is_bounded
);
