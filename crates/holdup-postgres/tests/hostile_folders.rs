//! Folders and links that another user has put where clusters are made: nothing outside holdup's own is ended, read or
//! written.

use crate::common;
use common::{binaries, cluster, is_alive, names, workdir};
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_load::Cancel;
use holdup_postgres::{Cluster, ClusterOptions, sweep_stale};
use holdup_testkit::ignore;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

/// The user who plants things.
const STRANGER: u32 = 54_321;

fn need_root() {
    if !holdup_testkit::is_root() {
        ignore("only root can make what another user would");
    }
}

/// What a folder of a killed run looks like, made by another user.
fn plant(parent: &Path, data: &Path) {
    let planted = parent.join("holdup-pg-999999-1-abcdefghabcdefgh");
    std::fs::create_dir(&planted).unwrap();
    symlink(data, planted.join("data")).unwrap();
    chown(&planted, Some(STRANGER), Some(STRANGER)).unwrap();
}

fn a_planted_folder_ends_no_server() {
    let bin = binaries();
    need_root();
    let (elsewhere, folder) = (workdir(), workdir());
    let production = cluster(bin, &elsewhere);
    plant(folder.path(), &production.data());
    // The same, as if a run of this user had made it.
    let ours = folder.path().join("holdup-pg-999998-1-abcdefghabcdefgh");
    std::fs::create_dir(&ours).unwrap();
    symlink(production.data(), ours.join("data")).unwrap();
    assert!(sweep_stale(&Host::real(), folder.path()).is_empty());
    production.ping().unwrap();
    assert_eq!(names(folder.path()).len(), 2, "they are not ours to remove");
    production.discard().unwrap();
}

fn only_a_server_of_the_user_that_owns_the_folder_is_ended() {
    binaries();
    need_root();
    let folder = workdir();
    let left = folder.path().join("holdup-pg-999999-1-abcdefghabcdefgh");
    let data = left.join("data");
    std::fs::create_dir_all(&data).unwrap();
    chown(&data, Some(STRANGER), Some(STRANGER)).unwrap();
    // A program of another user that is called postgres and works there, and one of the right user that works elsewhere:
    // postmaster.pid, which its user can write, names both.
    let sleeper = std::fs::read("/bin/sleep").unwrap();
    let program = folder.path().join("postgres");
    std::fs::write(&program, sleeper).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let start = |uid: u32, cwd: &Path| {
        use std::os::unix::process::CommandExt;
        std::fs::set_permissions(&data, PermissionsExt::from_mode(0o777)).unwrap();
        std::process::Command::new(&program).arg("60").uid(uid).gid(uid).current_dir(cwd).spawn().unwrap()
    };
    let mut of_another_user = start(STRANGER + 1, &data);
    let mut elsewhere = start(STRANGER, Path::new("/"));
    let mut orphan = start(STRANGER, &data);
    std::fs::write(data.join("postmaster.pid"), format!("{}\n", elsewhere.id())).unwrap();
    let removed = sweep_stale(&Host::real(), folder.path());
    assert_eq!(removed, [left]);
    assert!(orphan.try_wait().unwrap().is_some() || orphan.wait().is_ok(), "it worked in a folder of ours");
    for other in [&mut of_another_user, &mut elsewhere] {
        assert_eq!(other.try_wait().unwrap(), None, "it was none of ours");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

/// Finding L6 of the attacks: the run was killed between making the data folder and giving it away.
fn a_folder_whose_data_still_belongs_to_root_is_swept() {
    need_root();
    let folder = workdir();
    let left = folder.path().join("holdup-pg-999999-1-abcdefghabcdefgh");
    std::fs::create_dir_all(left.join("data")).unwrap();
    assert_eq!(sweep_stale(&Host::real(), folder.path()), [left]);
}

fn what_the_servers_user_plants_is_not_followed() {
    let bin = binaries();
    need_root();
    let folder = workdir();
    let cluster = cluster(bin, &folder);
    let precious = folder.path().join("precious");
    std::fs::write(&precious, "root's own").unwrap();
    std::fs::set_permissions(&precious, PermissionsExt::from_mode(0o600)).unwrap();
    let server = cluster.user().unwrap().uid;
    // Its user can put nothing beside the logs, which are root's.
    let private = std::fs::metadata(cluster.folder()).unwrap();
    assert_eq!((private.uid(), private.mode() & 0o7777), (0, 0o711));
    for log in ["server.log", "setup.log"] {
        let found = std::fs::symlink_metadata(cluster.folder().join(log)).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o7777, found.is_file()), (0, 0o600, true), "{log}");
    }
    let sockets = std::fs::metadata(cluster.socket_folder()).unwrap();
    assert_eq!((sockets.uid(), sockets.mode() & 0o7777), (server, 0o700), "its connections need no password");
    // What its user can replace is in its data folder.
    let auto = cluster.data().join("postgresql.auto.conf");
    std::fs::remove_file(&auto).unwrap();
    symlink(&precious, &auto).unwrap();
    let refused = cluster.alter("shared_buffers", Some("17MB")).unwrap_err();
    assert!(refused.to_string().contains("postgresql.auto.conf"), "{refused}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "root's own");
    cluster.discard().unwrap();
    assert_eq!(names(folder.path()), ["precious"]);
}

fn a_stopped_server_is_ended_with_all_its_processes() {
    let bin = binaries();
    let folder = workdir();
    let cluster = cluster(bin, &folder);
    let postmaster = cluster.pid().unwrap();
    let stop = |pid: u32| kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::STOP).unwrap();
    // A stopped postmaster starts no worker, and the pid of one that ends stays.
    stop(postmaster);
    while !std::fs::read_to_string(format!("/proc/{postmaster}/stat")).unwrap().contains(") T ") {}
    let children = std::fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).unwrap();
    let mut all: Vec<u32> = children.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect();
    all.iter().copied().for_each(stop);
    all.push(postmaster);
    cluster.discard().unwrap();
    assert!(all.iter().all(|pid| !is_alive(*pid)));
    assert_eq!(names(folder.path()), [""; 0]);
}

fn a_folder_that_others_can_change_is_refused_for_root() {
    let bin = binaries();
    need_root();
    let folder = workdir();
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
    let options =
        ClusterOptions { bin, workdir: open.clone(), max_clients: 8, network: None, cancel: Cancel::default() };
    let refused = Cluster::create(&Host::real(), &options).unwrap_err();
    assert!(refused.why.contains("every user may replace what is in"), "{refused}");
    assert!(refused.hint.as_ref().is_some_and(|hint| hint.contains("TMPDIR")), "{refused}");
    assert_eq!(names(&open), [""; 0]);
}

holdup_testkit::tests!(
    a_planted_folder_ends_no_server,
    only_a_server_of_the_user_that_owns_the_folder_is_ended,
    a_folder_whose_data_still_belongs_to_root_is_swept,
    what_the_servers_user_plants_is_not_followed,
    a_stopped_server_is_ended_with_all_its_processes,
    a_folder_that_others_can_change_is_refused_for_root
);
