//! Networks of holdup's own on this kernel: packets go through and are counted, and nothing stays behind.

use holdup_host::network::{Counters, End, Endpoint, Network, Options, Topology, probe};
use holdup_host::{Host, process};
use holdup_model::catalogue::Availability;
use holdup_testkit::{ignore, ignore_part};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The topologies that can be made here; where there is none, the test is ignored.
fn possible(wanted: &[Topology]) -> Vec<Topology> {
    let host = Host::real();
    let ready = |topology: &Topology| match probe(*topology, &host) {
        Availability::Unavailable { reason, .. } => {
            ignore_part(format!("network {} cannot be made here: {reason}", topology.word()));
            false
        }
        _ => true,
    };
    let found: Vec<Topology> = wanted.iter().copied().filter(ready).collect();
    if found.is_empty() {
        ignore("none of the networks can be made here");
    }
    found
}

fn make(topology: Topology) -> Network {
    Network::make(topology, Options::default(), &Host::real()).unwrap()
}

fn udp(place: &Endpoint) -> UdpSocket {
    let socket = place.within(|| UdpSocket::bind((place.address(), 0)).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

/// The kernel has handled all that was sent over a veth pair before this: one packet more came through behind it.
fn drained(client: &UdpSocket, server: &UdpSocket) {
    server.send_to(b"drained", client.local_addr().unwrap()).unwrap();
    client.recv(&mut [0; 16]).unwrap();
}

/// The namespaces that a process holds, by the inodes of their open files.
fn held_namespaces(pid: u32) -> BTreeSet<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    links.filter_map(|link| link.to_str().filter(|l| l.starts_with("net:[")).map(str::to_owned)).collect()
}

/// The names of the links of the namespace that a thread of this place sees.
fn link_names(place: &Endpoint) -> BTreeSet<String> {
    let text = place.within(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
    text.lines().skip(2).map(|line| line.split(':').next().unwrap().trim().to_owned()).collect()
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn every_datagram_that_is_sent_arrives_and_is_counted_once() {
    for topology in possible(&Topology::ALL) {
        let network = make(topology);
        let (client, server) = (udp(network.end(End::Client)), udp(network.end(End::Server)));
        let before = network.counters().unwrap();
        for n in 0..100_u32 {
            client.send_to(&n.to_ne_bytes(), server.local_addr().unwrap()).unwrap();
            let mut got = [0; 8];
            let (length, from) = server.recv_from(&mut got).unwrap();
            assert_eq!((&got[..length], from), (&n.to_ne_bytes()[..], client.local_addr().unwrap()));
        }
        let added = network.counters().unwrap().minus(&before);
        if topology == Topology::Host {
            // Others may send over the host's loopback link at the same time.
            assert!(added.server.udp_delivered().unwrap() >= 100);
            continue;
        }
        assert_eq!(added.server.udp_delivered(), Some(100), "{topology:?}");
        assert_eq!(added.client.get("Udp", "OutDatagrams"), Some(100), "{topology:?}");
        assert!(added.losses().iter().all(|(name, _)| name.starts_with("host.")), "{:?}", added.losses());
        let packets: Vec<(&str, u64, u64)> =
            added.links.iter().map(|(place, link)| (*place, link.rx_packets, link.tx_packets)).collect();
        match topology {
            Topology::Host => {}
            Topology::Loopback => assert_eq!(packets, [("client", 100, 100)]),
            Topology::Veth => assert_eq!(packets, [("client", 0, 100), ("server", 100, 0)]),
            Topology::Bridge | Topology::OpenVSwitch => {
                let switch = packets.iter().find(|(place, ..)| *place == "switch.client").unwrap();
                assert_eq!((switch.1, switch.2), (100, 0));
                assert!(packets.contains(&("server", 100, 0)) && packets.contains(&("client", 0, 100)), "{packets:?}");
            }
        }
    }
}

fn what_a_small_buffer_drops_is_counted_by_the_kernel() {
    for topology in possible(&[Topology::Loopback, Topology::Veth, Topology::Bridge, Topology::OpenVSwitch]) {
        let network = make(topology);
        let (client, server) = (udp(network.end(End::Client)), udp(network.end(End::Server)));
        let other = udp(network.end(End::Client));
        let before = network.counters().unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&server, 1).unwrap();
        let sent = 1000_u64;
        for _ in 0..sent {
            client.send_to(&[7; 200], server.local_addr().unwrap()).unwrap();
        }
        drained(&other, &udp(network.end(End::Server)));
        // A switch may have no room for all of them; what it dropped is counted by name as well.
        let at_the_switch = |added: &Counters| {
            let losses = added.losses().into_iter().filter(|(name, _)| !name.contains("Udp"));
            losses.map(|(_, n)| n).sum::<u64>()
        };
        eventually("all were handled", || {
            let now = network.counters().unwrap().minus(&before);
            now.server.get("Ip", "InDelivers").unwrap() + at_the_switch(&now) >= sent
        });
        server.set_nonblocking(true).unwrap();
        let mut received = 0;
        loop {
            match server.recv(&mut [0; 300]) {
                Ok(length) => received += u64::from(length == 200),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => panic!("{e}"),
            }
        }
        let added = network.counters().unwrap().minus(&before);
        let dropped = added.server.get("Udp", "RcvbufErrors").unwrap();
        assert!(received > 0 && dropped > 0, "{topology:?}: {received} received, {dropped} dropped");
        assert_eq!(sent, received + dropped + at_the_switch(&added), "{topology:?}: {:?}", added.losses());
        // Where the ends share a namespace, the datagram by which the test waits is counted with the others.
        let extra = u64::from(topology == Topology::Loopback);
        assert_eq!(added.server.udp_delivered(), Some(received + extra), "{topology:?}");
        let named = if topology == Topology::Loopback { "client.Udp.RcvbufErrors" } else { "server.Udp.RcvbufErrors" };
        assert!(added.losses().contains(&(named.to_owned(), dropped)), "{:?}", added.losses());
    }
}

fn a_stream_goes_through_whole_in_both_directions() {
    for topology in possible(&[Topology::Loopback, Topology::Veth, Topology::Bridge, Topology::OpenVSwitch]) {
        let network = make(topology);
        let (client, server) = (network.end(End::Client), network.end(End::Server));
        let listener = server.within(|| TcpListener::bind((server.address(), 0)).unwrap()).unwrap();
        let target = listener.local_addr().unwrap();
        let before = network.counters().unwrap();
        let sent: Vec<u8> = (0..1 << 20).map(|n: u32| (n % 251) as u8).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut peer, _) = listener.accept().unwrap();
                let mut got = Vec::new();
                peer.read_to_end(&mut got).unwrap();
                peer.write_all(&got).unwrap();
            });
            let mut stream = client.within(|| TcpStream::connect(target).unwrap()).unwrap();
            stream.write_all(&sent).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut back = Vec::new();
            stream.read_to_end(&mut back).unwrap();
            assert!(back == sent, "{topology:?}");
        });
        let added: Counters = network.counters().unwrap().minus(&before);
        assert_eq!(added.client.get("Tcp", "ActiveOpens"), Some(1), "{topology:?}");
        assert_eq!(added.server.get("Tcp", "PassiveOpens"), Some(1), "{topology:?}");
        assert!(
            added.client.tcp_retransmitted().is_some() && added.client.get("TcpExt", "TCPLostRetransmit").is_some()
        );
        assert!(added.links["client"].tx_bytes >= 1 << 20, "{topology:?}");
    }
}

fn the_mtu_is_that_of_the_links() {
    let host = Host::real();
    for topology in possible(&[Topology::Loopback, Topology::Veth, Topology::Bridge, Topology::OpenVSwitch]) {
        let network = Network::make(topology, Options { mtu: Some(9000) }, &host).unwrap();
        let (client, server) = (udp(network.end(End::Client)), udp(network.end(End::Server)));
        let before = network.counters().unwrap();
        // A datagram of 8972 bytes with its headers of 28 fits; one byte more makes two packets.
        for (length, packets) in [(8972, 1), (8973, 2)] {
            let start = network.counters().unwrap();
            client.send_to(&vec![1; length], server.local_addr().unwrap()).unwrap();
            assert_eq!(server.recv(&mut [0; 9000]).unwrap(), length);
            let added = network.counters().unwrap().minus(&start);
            assert_eq!(added.links["client"].tx_packets, packets, "{topology:?} {length}");
        }
        assert_eq!(network.counters().unwrap().minus(&before).server.udp_delivered(), Some(2));
        assert_eq!(network.mtu(), 9000);
    }
    for topology in possible(&[Topology::Loopback, Topology::Veth, Topology::Bridge, Topology::OpenVSwitch]) {
        for mtu in [68, 65535] {
            let network = Network::make(topology, Options { mtu: Some(mtu) }, &host).unwrap();
            let (client, server) = (udp(network.end(End::Client)), udp(network.end(End::Server)));
            client.send_to(&[1; 1000], server.local_addr().unwrap()).unwrap();
            assert_eq!(server.recv(&mut [0; 2000]).unwrap(), 1000, "{topology:?} {mtu}");
        }
    }
    for mtu in [0, 67, 65536, u32::MAX] {
        let refused = Network::make(Topology::Veth, Options { mtu: Some(mtu) }, &host).unwrap_err();
        assert_eq!(refused.what, format!("mtu {mtu}"));
    }
    let refused = Network::make(Topology::Host, Options { mtu: Some(1500) }, &host).unwrap_err();
    assert!(refused.what.contains("network host"), "{refused}");
}

fn a_forked_child_enters_and_the_host_sees_nothing_of_it() {
    let [topology] = possible(&[Topology::Veth])[..] else { return };
    let host_links = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap().lines().count();
    let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let before = host_links();
    let network = make(topology);
    assert_eq!(host_links(), before);
    let seen = network.end(End::Server).within(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
    assert_ne!(seen, own);
    assert_eq!(std::fs::read_link("/proc/thread-self/ns/net").unwrap(), own);
    let place = network.end(End::Server).clone();
    let mut child = Command::new("cat");
    child.arg("/proc/self/net/dev").stdout(Stdio::piped());
    // SAFETY: between fork and exec the child makes one system call and takes no memory.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut child, move || place.enter()) };
    let output = child.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("eth0:") && text.lines().count() == 4, "{text}");
    assert_eq!(host_links(), before);
}

/// A veth link goes with its peer's namespace: the end that is kept loses its link when the kernel has removed the
/// namespace of the other end.
fn a_network_that_is_dropped_is_removed_by_the_kernel() {
    for topology in possible(&[Topology::Veth, Topology::Bridge, Topology::OpenVSwitch]) {
        let network = make(topology);
        let kept = network.end(End::Client).clone();
        assert_eq!(link_names(&kept), BTreeSet::from(["eth0".to_owned(), "lo".to_owned()]));
        let socket = udp(network.end(End::Server));
        drop(network);
        if topology == Topology::Veth {
            // The socket keeps its namespace.
            std::thread::sleep(Duration::from_millis(200));
            assert!(link_names(&kept).contains("eth0"));
        }
        drop(socket);
        eventually("the link is gone", || !link_names(&kept).contains("eth0"));
    }
}

const CHILD: &str = "HOLDUP_TEST_NETWORK_CHILD";

/// The process of the next tests, which runs commands line by line; alone it does nothing.
fn child_that_makes_a_network_and_waits() {
    let Ok(word) = std::env::var(CHILD) else { return };
    let mut network = Some(make(Topology::parse(&word).unwrap()));
    println!("\ndone: made");
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "drop" => network = None,
            "counters" => println!("{:?}", network.as_ref().unwrap().counters().unwrap().switch),
            other => panic!("{other}"),
        }
        println!("done");
    }
}

/// Such a process with a network.
struct Maker(Child);

impl Maker {
    fn start(topology: Topology) -> Maker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--include-ignored", "--exact", "network::child_that_makes_a_network_and_waits", "--nocapture"])
            .env(CHILD, topology.word());
        let mut maker = Maker(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        maker.until_done();
        maker
    }

    /// What it says before its next word that it is done.
    fn until_done(&mut self) -> String {
        let mut said = String::new();
        while !said.contains("\ndone") {
            let mut byte = [0];
            self.0.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
            said.push(char::from(byte[0]));
        }
        said
    }

    fn command(&mut self, line: &str) -> String {
        self.0.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
        self.until_done()
    }

    /// The names of the processes that it started, with their start times.
    fn daemons(&self) -> Vec<(String, u32, u64)> {
        let all = process::all(&Host::real()).unwrap().into_iter().filter(|stat| stat.ppid == self.0.id());
        all.map(|stat| (stat.comm, stat.pid, stat.start_time)).collect()
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn all_ended(daemons: &[(String, u32, u64)]) -> bool {
    daemons.iter().all(|(_, pid, began)| !process::alive(&Host::real(), *pid, *began))
}

fn namespaces_of_tasks() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for pid in std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name()) {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.to_string_lossy())).into_iter().flatten();
        let links = tasks.filter_map(|task| std::fs::read_link(task.ok()?.path().join("ns/net")).ok());
        found.extend(links.map(|link| link.to_string_lossy().into_owned()));
    }
    found
}

fn a_network_goes_with_a_process_that_is_killed() {
    for topology in possible(&[Topology::Veth, Topology::Bridge, Topology::OpenVSwitch]) {
        let maker = Maker::start(topology);
        let held = held_namespaces(maker.0.id());
        assert_eq!(held.len(), if topology == Topology::Veth { 2 } else { 3 }, "{held:?}");
        let daemons = maker.daemons();
        assert_eq!(daemons.len(), if topology == Topology::OpenVSwitch { 2 } else { 0 }, "{daemons:?}");
        // One end is kept over the death of the process, to see its link go.
        let kept = std::fs::read_dir(format!("/proc/{}/fd", maker.0.id()))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| std::fs::read_link(path).is_ok_and(|l| l.to_string_lossy().starts_with("net:[")))
            .map(|path| std::fs::File::open(path).unwrap())
            .unwrap();
        let inside = || {
            rustix::thread::move_into_link_name_space(kept.as_fd(), None).unwrap();
            std::fs::read_to_string("/proc/thread-self/net/dev").unwrap()
        };
        let names = || std::thread::scope(|scope| scope.spawn(inside).join().unwrap());
        assert!(names().contains("eth0"), "{}", names());
        drop(maker);
        eventually("the link is gone", || !names().contains("eth0"));
        assert!(namespaces_of_tasks().is_disjoint(&held) && all_ended(&daemons), "{held:?} {daemons:?}");
    }
}

fn a_switch_ends_with_its_network_and_its_death_is_reported() {
    let [topology] = possible(&[Topology::OpenVSwitch])[..] else { return };
    let mounts = || std::fs::read_to_string("/proc/self/mounts").unwrap();
    let before = mounts();
    let mut maker = Maker::start(topology);
    let daemons = maker.daemons();
    let names: BTreeSet<&str> = daemons.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["ovs-vswitchd", "ovsdb-server"]));
    assert_eq!(mounts(), before);
    let answer = maker.command("counters");
    assert!(answer.contains("Ok({\"datapath.lost\": 0"), "{answer}");
    let (_, switch, _) = daemons.iter().find(|(name, ..)| name == "ovs-vswitchd").unwrap();
    let switch = rustix::process::Pid::from_raw(i32::try_from(*switch).unwrap()).unwrap();
    rustix::process::kill_process(switch, rustix::process::Signal::KILL).unwrap();
    let begun = Instant::now();
    loop {
        let answer = maker.command("counters");
        if answer.contains("Err(\"ovs-vswitchd ended (signal: 9 (SIGKILL))") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{answer}");
    }
    maker.command("drop");
    assert!(all_ended(&daemons) && maker.daemons().is_empty());
    assert!(held_namespaces(maker.0.id()).is_empty());
}

fn without_the_right_the_error_says_what_it_takes() {
    // Capabilities belong to a thread: the one that gives them up makes the network.
    let refused = std::thread::spawn(|| {
        let none = rustix::thread::CapabilitySet::empty();
        let sets = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).unwrap();
        let host = Host::real();
        let refused = Network::make(Topology::Veth, Options::default(), &host).unwrap_err();
        (refused, probe(Topology::Bridge, &host), probe(Topology::Host, &host))
    });
    let (refused, bridge, host) = refused.join().unwrap();
    assert!(refused.why.contains("CAP_SYS_ADMIN and CAP_NET_ADMIN"), "{refused}");
    assert!(refused.hint.is_some_and(|hint| hint.contains("run as root")));
    assert!(matches!(bridge, Availability::Unavailable { remedy: Some(_), .. }), "{bridge:?}");
    assert_eq!(host, Availability::Ready);
}

fn a_captured_tree_has_no_network() {
    let host = Host::captured("tests/trees/debian-7.0-amd64-preempt-none.tree".as_ref()).unwrap();
    for topology in Topology::ALL {
        let refused = Network::make(topology, Options::default(), &host).unwrap_err();
        assert!(refused.why.contains("captured tree"), "{refused}");
        assert_eq!(Topology::parse(topology.word()).unwrap(), topology);
    }
    let unknown = Topology::parse("token-ring").unwrap_err();
    assert!(unknown.hint.is_some_and(|hint| hint.contains("host, loopback, veth, bridge")));
}

holdup_testkit::tests!(
    every_datagram_that_is_sent_arrives_and_is_counted_once,
    what_a_small_buffer_drops_is_counted_by_the_kernel,
    a_stream_goes_through_whole_in_both_directions,
    the_mtu_is_that_of_the_links,
    a_forked_child_enters_and_the_host_sees_nothing_of_it,
    a_network_that_is_dropped_is_removed_by_the_kernel,
    a_network_goes_with_a_process_that_is_killed,
    a_switch_ends_with_its_network_and_its_death_is_reported,
    without_the_right_the_error_says_what_it_takes,
    a_captured_tree_has_no_network;
    by_hand:
    child_that_makes_a_network_and_waits
);
