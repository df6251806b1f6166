//! A Slurm cluster of four nodes on this machine: munged, slurmctld and four slurmd as ordinary processes, which end with
//! the test.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The names of the nodes.
pub(crate) const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// A running cluster.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
    nodes: BTreeMap<&'static str, Child>,
}

/// Why there can be no cluster here, if there is a reason.
pub(crate) fn missing() -> Option<String> {
    if !holdup_testkit::is_root() {
        return Some("daemons of several users take root".to_owned());
    }
    for program in ["slurmctld", "slurmd", "munged", "sbatch"] {
        let is_there = ["/usr/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(program).exists());
        if !is_there {
            return Some(format!("there is no {program} (Debian: slurmctld, slurmd, slurm-client, munge)"));
        }
    }
    user("munge").is_none().then(|| "there is no user munge".to_owned())
}

fn user(name: &str) -> Option<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == name)?;
    Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}

/// What the nodes have: their options in slurm.conf.
const OF_NODES: [&str; 4] = [
    "CPUs=1 RealMemory=2000 Feature=milan",
    "CPUs=1 RealMemory=2000 Feature=milan,nvme",
    "CPUs=1 RealMemory=3000 Feature=genoa",
    "CPUs=2 RealMemory=2000 Feature=genoa",
];

impl Cluster {
    /// Starts a cluster. On the nodes in `blind` each of the folders `hidden` is empty, and apart from those of other nodes.
    pub(crate) fn start(blind: &[&str], hidden: &[PathBuf]) -> Cluster {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("orphans come to this test");
        // Not in /tmp, which may be hidden.
        let folder = tempfile::Builder::new().prefix("holdup-slurm-").tempdir_in("/var/tmp").expect("a folder");
        let path = folder.path();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("others may enter");
        for name in ["munge", "state", "spool", "log"] {
            std::fs::create_dir(path.join(name)).expect("a folder");
        }
        for node in NODES {
            std::fs::create_dir(path.join("spool").join(node)).expect("a folder");
        }
        let mut cluster = Cluster { folder, daemons: Vec::new(), nodes: BTreeMap::new() };
        cluster.start_munged();
        std::fs::write(cluster.path("plugstack.conf"), "").expect("a file");
        std::fs::write(cluster.path("slurm.conf"), cluster.configuration()).expect("a file");
        let conf = cluster.path("slurm.conf");
        let controller = cluster.daemon("slurmctld", &["-D", "-f", &conf.display().to_string()], "slurmctld");
        cluster.daemons.push(controller);
        for node in NODES {
            let words = ["-D", "-N", node, "-f", &conf.display().to_string()].map(str::to_owned);
            let slurmd = match blind.contains(&node) {
                false => cluster.daemon("slurmd", &words.each_ref().map(String::as_str), node),
                true => {
                    let mounts: String =
                        hidden.iter().map(|path| format!("mount -t tmpfs none '{}' && ", path.display())).collect();
                    let hide = format!("{mounts}chmod 1777 /tmp && exec slurmd {}", words.join(" "));
                    cluster.daemon("unshare", &["--mount", "sh", "-c", &hide], node)
                }
            };
            cluster.nodes.insert(node, slurmd);
        }
        let begun = Instant::now();
        while cluster.ask("sinfo", &["-h", "-N", "-p", "main", "-o", "%T"]).matches("idle").count() < NODES.len() {
            assert!(begun.elapsed() < Duration::from_secs(120), "the nodes did not come up: {}", cluster.logs());
            std::thread::sleep(Duration::from_millis(200));
        }
        cluster
    }

    fn start_munged(&mut self) {
        let (uid, gid) = user("munge").expect("the user munge");
        let (folder, key) = (self.path("munge"), self.path("munge/key"));
        let random: Vec<u8> = std::fs::read("/proc/sys/kernel/random/uuid").expect("random letters").repeat(4);
        std::fs::write(&key, random).expect("a key");
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o400)).expect("a mode");
        for path in [&folder, &key] {
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).expect("root may give files away");
        }
        let option = |name: &str, file: &str| format!("--{name}={}", folder.join(file).display());
        let munged = Command::new("munged")
            .args(["--foreground", "--num-threads=2"])
            .args([option("socket", "socket"), option("key-file", "key"), option("log-file", "log")])
            .args([option("pid-file", "pid"), option("seed-file", "seed")])
            .uid(uid)
            .gid(gid)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("munged starts");
        self.daemons.push(munged);
        super::wait_for("munged's socket", || folder.join("socket").exists());
    }

    fn configuration(&self) -> String {
        // Bound together, so that all are different.
        let bound: Vec<TcpListener> =
            (0..=NODES.len()).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let ports: Vec<u16> = bound.iter().map(|socket| socket.local_addr().expect("an address").port()).collect();
        let at = self.folder.path().display();
        let nodes: String = NODES
            .iter()
            .zip(&ports[1..])
            .zip(OF_NODES)
            .map(|((node, port), has)| {
                format!("NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} {has}\n")
            })
            .collect();
        format!(
            "ClusterName=test\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={at}/munge/socket,cred_expire=5\nCredType=cred/munge\n\
             StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool/%n\nSlurmctldPidFile={at}/slurmctld.pid\n\
             SlurmdPidFile={at}/slurmd-%n.pid\nSlurmctldLogFile={at}/log/slurmctld.log\nSlurmdLogFile={at}/log/%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n\
             MailProg=/bin/true\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n\
             SchedulerType=sched/backfill\nSchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2\n\
             ReturnToService=2\nSlurmdTimeout=6\nKillWait=2\nMinJobAge=300\nJobAcctGatherType=jobacct_gather/none\n\
             AccountingStorageType=accounting_storage/none\nPlugStackConfig={at}/plugstack.conf\n{nodes}\
             PartitionName=main Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP\n\
             PartitionName=short Nodes=n1 MaxTime=1 State=UP\n",
            ports[0]
        )
    }

    fn daemon(&self, program: &str, words: &[&str], log: &str) -> Child {
        let log = std::fs::File::create(self.path("log").join(format!("{log}.out"))).expect("a log");
        Command::new(program)
            .args(words)
            .env("SLURM_CONF", self.path("slurm.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("a daemon of Slurm starts")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What programs of Slurm read to find this cluster.
    pub(crate) fn conf(&self) -> PathBuf {
        self.path("slurm.conf")
    }

    /// What a program of Slurm prints.
    pub(crate) fn ask(&self, program: &str, words: &[&str]) -> String {
        let output = Command::new(program).args(words).env("SLURM_CONF", self.conf()).output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The tasks as (index, state, node).
    pub(crate) fn tasks(&self) -> Vec<(u32, String, String)> {
        let said = self.ask("squeue", &["-h", "-r", "-t", "all", "-o", "%K|%T|%N"]);
        let line = |line: &str| {
            let fields: Vec<&str> = line.trim().split('|').collect();
            Some((fields[0].parse().ok()?, fields[1].to_owned(), fields[2].to_owned()))
        };
        said.lines().filter_map(line).collect()
    }

    /// Ends a node in one moment, with all that runs there, as a power cut does.
    pub(crate) fn kill_node(&mut self, node: &str) {
        let slurmd = self.nodes.get_mut(node).expect("a node");
        let all = below(slurmd.id());
        for pid in all.into_iter().chain([slurmd.id()]) {
            kill(pid);
        }
        slurmd.wait().expect("it was ended");
    }

    /// What is in a folder as a node sees it.
    pub(crate) fn list(&self, node: &str, folder: &str) -> Vec<String> {
        let seen = format!("/proc/{}/root{folder}", self.nodes[node].id());
        let names = std::fs::read_dir(seen).expect("the node sees it").flatten();
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// What the daemons wrote.
    pub(crate) fn logs(&self) -> String {
        let files = std::fs::read_dir(self.path("log")).into_iter().flatten().flatten();
        files.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default()).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Orphans of daemons that end become children of this process: until none is left.
        for _ in 0..100 {
            let left = below(std::process::id());
            left.iter().for_each(|pid| kill(*pid));
            while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
            if left.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended.
        let _gone = kill_process(pid, Signal::KILL);
    }
}

/// All processes beneath one, by their ids.
fn below(root: u32) -> Vec<u32> {
    let mut parents: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").expect("a /proc").flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        parents.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(parents.get(pid).into_iter().flatten().copied().collect::<Vec<_>>());
        next += 1;
    }
    found.split_off(1)
}
