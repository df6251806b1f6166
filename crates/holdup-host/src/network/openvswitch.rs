//! An Open vSwitch of holdup's own: its two daemons with a database, in the namespace of the switch.
//!
//! Sources: ovsdb-server(1), ovs-vswitchd(8), ovs-vsctl(8), ovs-vswitchd.conf.db(5).
//!
//! One thread starts the daemons and stays until they are ended. It has its own mount namespace with an empty
//! tmpfs, in which the daemons have their sockets and the database: files and daemons end with that thread, so that
//! nothing is left when holdup is killed. A switch of the host itself is neither asked nor changed.

use super::namespace::Namespace;
use super::netlink::{self, Netlink, Request};
use holdup_model::Problem;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// The folder that is the daemons' own, in their mount namespace only.
const FOLDER: &str = "/tmp";
const DATABASE: &str = "unix:/tmp/db.sock";
/// The longest that a command may take, in seconds, as the programs take it.
const LONGEST: &str = "--timeout=20";
const START: Duration = Duration::from_secs(20);

/// The programs of Open vSwitch on this host.
#[derive(Debug)]
pub(super) struct Programs {
    tool: PathBuf,
    server: PathBuf,
    switch: PathBuf,
    control: PathBuf,
    ask: PathBuf,
}

impl Programs {
    /// Looks for them in PATH and in the folders of system programs, which an ordinary user's PATH lacks.
    pub(super) fn find() -> Result<Self, Problem> {
        Self::find_in(&std::env::var_os("PATH").unwrap_or_default())
    }

    fn find_in(path: &OsString) -> Result<Self, Problem> {
        let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
        let folders: Vec<PathBuf> = std::env::split_paths(path).chain(system).collect();
        let find = |name: &str| {
            let found = folders.iter().filter(|f| f.is_absolute()).map(|f| f.join(name)).find(|path| path.is_file());
            found.ok_or_else(|| {
                Problem::host("network openvswitch", format!("Open vSwitch is not installed: there is no {name}")).hint(
                    "install it (Debian, Ubuntu: openvswitch-switch; Fedora: openvswitch); its service need not run",
                )
            })
        };
        Ok(Programs {
            tool: find("ovsdb-tool")?,
            server: find("ovsdb-server")?,
            switch: find("ovs-vswitchd")?,
            control: find("ovs-vsctl")?,
            ask: find("ovs-appctl")?,
        })
    }
}

/// Where packets are switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Datapath {
    /// By the kernel's module openvswitch.
    System,
    /// By ovs-vswitchd in user space, over packet sockets.
    Netdev,
}

impl Datapath {
    /// The best one here. To ask for the kernel's family makes the kernel load its module where it may.
    pub(super) fn choose(namespace: &Namespace) -> io::Result<Self> {
        let mut generic = namespace.within(Netlink::open_generic)??;
        let mut request = Request::new(GENL_ID_CTRL, 0, &[CTRL_CMD_GETFAMILY, 1, 0, 0]);
        match generic.ask(request.text(CTRL_ATTR_FAMILY_NAME, "ovs_datapath")) {
            Ok(()) => Ok(Datapath::System),
            Err(e) if netlink::errno(&e) == Some(libc::ENOENT) => Ok(Datapath::Netdev),
            Err(e) => Err(e),
        }
    }

    /// Its word in Open vSwitch's database (`datapath_type`).
    pub(super) const fn word(self) -> &'static str {
        match self {
            Datapath::System => "system",
            Datapath::Netdev => "netdev",
        }
    }
}

/// A command for the thread, and where its output goes.
type Asked = (Vec<&'static str>, Sender<Result<String, String>>);

/// A switch that runs. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Switch {
    pub(super) version: String,
    pub(super) datapath: Datapath,
    commands: Option<Sender<Asked>>,
    keeper: Option<JoinHandle<()>>,
}

impl Switch {
    /// Starts one in `namespace` with links of it as ports.
    pub(super) fn start(programs: Programs, namespace: &Namespace, ports: &[&'static str]) -> Result<Self, Problem> {
        let failed = |why: String| Problem::host("network openvswitch", why);
        let of_system = |e: io::Error| failed(e.to_string());
        let datapath = Datapath::choose(namespace).map_err(of_system)?;
        let inside = namespace.try_clone().map_err(of_system)?;
        let (commands, asked) = channel::<Asked>();
        let (result, results) = channel();
        let ports = ports.to_vec();
        let work = move || {
            let daemons = inside.enter().map_err(|e| e.to_string()).and_then(|()| Daemons::start(programs));
            match daemons.and_then(|daemons| Ok((daemons.add_bridge(datapath, &ports)?, daemons))) {
                Ok((version, daemons)) => {
                    // The receiver is gone only when the process ends.
                    let _sent = result.send(Ok(version));
                    daemons.serve(&asked);
                }
                Err(why) => drop(result.send(Err(why))),
            }
        };
        let keeper = std::thread::Builder::new().name("holdup-ovs".to_owned()).spawn(work).map_err(of_system)?;
        let mut switch = Switch { version: String::new(), datapath, commands: Some(commands), keeper: Some(keeper) };
        let version = results.recv().unwrap_or_else(|_| Err("the thread that keeps its daemons ended".to_owned()));
        switch.version = version.map_err(failed)?;
        Ok(switch)
    }

    /// Packets that the datapath dropped because ovs-vswitchd did not take them in time to decide about them
    /// (`lost` of `ovs-appctl dpctl/show`).
    pub(super) fn lost(&self) -> Result<u64, String> {
        let ended = || "the thread that keeps the daemons of Open vSwitch ended".to_owned();
        let (answer, answered) = channel();
        let commands = self.commands.as_ref().ok_or_else(ended)?;
        commands.send((vec!["dpctl/show"], answer)).map_err(|_| ended())?;
        let text = answered.recv().map_err(|_| ended())??;
        lost_in(&text).ok_or_else(|| format!("ovs-appctl dpctl/show: `lost` is missing in {:?}", text.trim()))
    }
}

/// The number after `lost:`, of the datapath's line `lookups: hit:0 missed:0 lost:0`.
fn lost_in(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().find_map(|word| word.strip_prefix("lost:")).and_then(|n| n.parse().ok())
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(keeper) = self.keeper.take() {
            let _ended = keeper.join();
        }
    }
}

/// The two daemons; killed and reaped when dropped. Belongs to the thread that started them.
struct Daemons {
    programs: Programs,
    running: Vec<(&'static str, Child)>,
}

impl Drop for Daemons {
    fn drop(&mut self) {
        // The switch before its database. There is nothing to be saved, and no other process uses them.
        for (_, child) in self.running.iter_mut().rev() {
            let _killed = child.kill();
            let _reaped = child.wait();
        }
    }
}

impl Daemons {
    /// Starts both within the calling thread, which gets its own mount namespace.
    fn start(programs: Programs) -> Result<Self, String> {
        own_folder().map_err(|e| format!("its folder cannot be mounted: {e}"))?;
        let mut daemons = Daemons { programs, running: Vec::new() };
        run(&mut command(&daemons.programs.tool, &["create", "/tmp/conf.db"]))?;
        let server = ["/tmp/conf.db", "--remote=punix:/tmp/db.sock", "--unixctl=/tmp/db.ctl"];
        daemons.spawn("ovsdb-server", daemons.programs.server.clone(), &server)?;
        daemons.wait_for("/tmp/db.sock")?;
        daemons.spawn("ovs-vswitchd", daemons.programs.switch.clone(), &[DATABASE, "--unixctl=/tmp/switch.ctl"])?;
        daemons.wait_for("/tmp/switch.ctl")?;
        Ok(daemons)
    }

    fn spawn(&mut self, name: &'static str, program: PathBuf, arguments: &[&str]) -> Result<(), String> {
        let mut command = command(&program, arguments);
        command.args(["--no-chdir", "-vconsole:warn", "-vsyslog:off", "-vfile:off"]);
        let log = File::create(format!("{FOLDER}/{name}.log")).map_err(|e| e.to_string())?;
        command.stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|e| format!("{} cannot be started: {e}", program.display()))?;
        self.running.push((name, child));
        Ok(())
    }

    /// Waits until somebody listens at a socket.
    fn wait_for(&mut self, socket: &str) -> Result<(), String> {
        let deadline = Instant::now() + START;
        while UnixStream::connect(socket).is_err() {
            self.all_run()?;
            if Instant::now() > deadline {
                return Err(format!("its daemons did not answer within {} s", START.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn all_run(&mut self) -> Result<(), String> {
        for (name, child) in &mut self.running {
            if let Ok(Some(status)) = child.try_wait() {
                let log = fs::read_to_string(format!("{FOLDER}/{name}.log")).unwrap_or_default();
                return Err(format!("{name} ended ({status}){}", last_line(&log)));
            }
        }
        Ok(())
    }

    /// Makes the bridge with its ports, and sees that the switch took them. Gives the version.
    fn add_bridge(&self, datapath: Datapath, ports: &[&str]) -> Result<String, String> {
        let mut arguments = vec![LONGEST, "--db", DATABASE, "--", "add-br", super::SWITCH, "--"];
        let kind = format!("datapath_type={}", datapath.word());
        // The longest that it remembers where an Ethernet address is; the default is 300 s.
        let memory = "other-config:mac-aging-time=3600";
        arguments.extend(["set", "bridge", super::SWITCH, kind.as_str(), "fail_mode=standalone", memory]);
        for port in ports {
            arguments.extend(["--", "add-port", super::SWITCH, port]);
        }
        run(&mut command(&self.programs.control, &arguments))?;
        for port in ports {
            let of = |column| [LONGEST, "--db", DATABASE, "get", "interface", port, column];
            let number = run(&mut command(&self.programs.control, &of("ofport")))?;
            if number.trim().parse::<u32>().is_err() {
                let why = run(&mut command(&self.programs.control, &of("error"))).unwrap_or_default();
                return Err(format!("it did not take the port {port} (ofport {}): {}", number.trim(), why.trim()));
            }
        }
        let version = run(&mut command(&self.programs.switch, &["--version"]))?;
        Ok(version.lines().next().and_then(|line| line.split_ascii_whitespace().last()).unwrap_or_default().to_owned())
    }

    /// Runs commands until their channel is closed.
    fn serve(mut self, asked: &Receiver<Asked>) {
        for (arguments, answer) in asked {
            let all: Vec<&str> = [LONGEST, "-t", "/tmp/switch.ctl"].into_iter().chain(arguments).collect();
            let done = self.all_run().and_then(|()| run(&mut command(&self.programs.ask, &all)));
            let _sent = answer.send(done);
        }
    }
}

/// A mount namespace for the calling thread, with an empty folder that only it and its children see.
fn own_folder() -> io::Result<()> {
    // SAFETY: the flags concern the working directory and the mounts of this thread alone, no memory and no open files.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }?;
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("holdup", FOLDER, "tmpfs", flags, Some(c"mode=0700,size=64m"))?;
    Ok(())
}

/// A program of Open vSwitch that dies with the calling thread and knows of no other switch.
fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).current_dir("/");
    for folder in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
        command.env(folder, FOLDER);
    }
    let parent = i32::try_from(std::process::id()).unwrap_or(0);
    let prepare = move || {
        // SAFETY: only system calls that are async-signal-safe, on values of this frame.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
            // Holdup may have died before the signal was set.
            if libc::getppid() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            // A signal of the terminal is holdup's to handle.
            libc::setsid();
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no lock; see above.
    unsafe { command.pre_exec(prepare) };
    command
}

/// Runs a command to its end and gives what it printed.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name} cannot be started: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{name} failed ({}){}", output.status, last_line(&said)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn last_line(text: &str) -> String {
    text.lines().rfind(|line| !line.trim().is_empty()).map_or_else(String::new, |line| format!(": {}", line.trim()))
}

/// Lets the kernel compute checksums of what a link sends before it sends it, for the calling thread's namespace. What
/// a packet socket reads and forwards would else keep a checksum that no card ever fills in.
pub(super) fn send_whole_checksums(link: &str) -> io::Result<()> {
    const ETHTOOL_STXCSUM: u32 = 0x17;
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    #[repr(C)]
    struct Asking {
        name: [u8; libc::IFNAMSIZ],
        value: *mut Value,
        // The union of `struct ifreq` is longer than a pointer.
        rest: [u64; 2],
    }
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    let mut value = Value { command: ETHTOOL_STXCSUM, data: 0 };
    let mut asking = Asking { name: [0; libc::IFNAMSIZ], value: &raw mut value, rest: [0; 2] };
    for (to, from) in asking.name.iter_mut().zip(link.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from;
    }
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&socket);
    // SAFETY: `asking` is laid out as `struct ifreq` and `value` as `struct ethtool_value` (include/uapi/linux/if.h,
    // ethtool.h); both live until the call returns.
    if unsafe { libc::ioctl(descriptor, libc::SIOCETHTOOL as _, &raw mut asking) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_are_missing_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-appctl"] {
            if let Err(problem) = Programs::find_in(&folder.path().as_os_str().to_owned()) {
                assert!(problem.why.contains("Open vSwitch is not installed: there is no ovs"), "{problem}");
                assert!(problem.hint.is_some_and(|hint| hint.contains("openvswitch-switch")));
            }
            File::create(folder.path().join(name)).unwrap();
        }
        let found = Programs::find_in(&folder.path().as_os_str().to_owned()).unwrap();
        assert_eq!(found.switch, folder.path().join("ovs-vswitchd"));
    }

    #[test]
    fn lost_packets_are_read_from_the_datapaths_line() {
        let text = "netdev@ovs-netdev:\n  lookups: hit:12 missed:3 lost:4\n  flows: 0\n  port 0: ovs-netdev (tap)\n";
        assert_eq!(lost_in(text), Some(4));
        for foreign in ["", "lost:", "lost:x", "lost: 4"] {
            assert_eq!(lost_in(foreign), None, "{foreign:?}");
        }
    }
}
