//! From a profile to strands that are ready to begin: listeners, targets, files.

use crate::flow::MOST_CALL_BYTES;
use crate::profile::program::{Action, Connections, Endpoint, Program};
use crate::profile::{Profile, Protocol};
use crate::setup::Setup;
use crate::sockets;
use crate::strand::counts::Strands;
use crate::strand::link::{self, Target, Token};
use crate::strand::run::{Sendable, Strand, Way};
use holdup_files::Folder;
use holdup_host::network::{End, Network, Topology};
use holdup_model::Problem;
use rustix::fs::FileType;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// A listener's queue: callers of one strand, or of all that share a port.
const BACKLOG: i32 = 4096;
/// The most files that one `dir` is searched for, and how deep.
const MOST_FILES: usize = 1024;
const DEEPEST: usize = 16;

/// A group at both ends.
pub(crate) struct Pair {
    pub(crate) client: Arc<Program>,
    pub(crate) server: Arc<Program>,
    client_files: Arc<Vec<Vec<Sendable>>>,
    server_files: Arc<Vec<Vec<Sendable>>>,
}

/// Compiles all groups.
pub(crate) fn pairs(profile: &Profile, setup: &Setup) -> Result<Vec<Pair>, Problem> {
    let server = profile.mirrored();
    let pair = |(client, server)| {
        let (client, server) = (Program::of(client)?, Program::of(server)?);
        let endpoints = || client.endpoints.iter().chain(&server.endpoints);
        if setup.network.topology != Topology::Host && endpoints().any(|e| e.protocol == Protocol::Unix) {
            return Err(Problem::usage(
                format!("protocol unix with network {}", setup.network.topology.word()),
                "sockets of that kind do not go through a network",
            )
            .hint("take network host"));
        }
        if client.strands > 1 && endpoints().any(|e| e.protocol == Protocol::Udp && e.port.is_some()) {
            return Err(Problem::usage(
                format!("a port for udp in a group of {} strands", client.strands),
                "each of them takes its own port",
            )
            .hint("leave the port out"));
        }
        let (client_files, server_files) = (Arc::new(files(&client)?), Arc::new(files(&server)?));
        Ok(Pair { client: Arc::new(client), server: Arc::new(server), client_files, server_files })
    };
    profile.groups.iter().zip(&server.groups).map(pair).collect()
}

fn files(program: &Program) -> Result<Vec<Vec<Sendable>>, Problem> {
    let of = |files: &crate::profile::program::Files| {
        let mut found = Vec::new();
        Folder::open(Path::new(&files.dir))
            .and_then(|dir| search(&dir, 0, &mut found))
            .map_err(|e| Problem::usage(format!("dir {}", files.dir), format!("cannot be searched for files: {e}")))?;
        if found.is_empty() {
            return Err(Problem::usage(format!("dir {}", files.dir), "there is no file with anything in it"));
        }
        Ok(found)
    };
    program.files.iter().map(of).collect()
}

fn search(dir: &Folder, depth: usize, found: &mut Vec<Sendable>) -> io::Result<()> {
    for entry in dir.list(MOST_FILES)? {
        if entry.kind == FileType::Directory && depth < DEEPEST {
            search(&dir.folder(&entry.name)?, depth + 1, found)?;
        }
        if entry.kind == FileType::RegularFile && found.len() < MOST_FILES {
            let file = dir.open_file(&entry.name)?;
            let bytes = file.metadata()?.len();
            if bytes > 0 {
                found.push(Sendable { file: file.into(), bytes });
            }
        }
    }
    Ok(())
}

/// Makes listeners, those of one port once for each group.
struct Listeners<'a> {
    network: &'a Network,
    shared: BTreeMap<(u16, bool), (usize, Arc<OwnedFd>, Target)>,
    made: usize,
    token: Token,
}

impl Listeners<'_> {
    fn get(&mut self, group: usize, end: End, endpoint: &Endpoint) -> Result<(Arc<OwnedFd>, Target), Problem> {
        let failed = |e: io::Error| {
            let port = endpoint.port.map_or_else(|| "any port".to_owned(), |port| format!("port {port}"));
            Problem::trial(format!("{port} of {}", endpoint.protocol.word()), format!("cannot be listened at: {e}"))
        };
        let key = endpoint.port.filter(|_| endpoint.protocol != Protocol::Unix).map(|port| (port, end == End::Client));
        if let Some((of_group, listener, target)) = key.and_then(|key| self.shared.get(&key)) {
            if *of_group != group {
                return Err(failed(rustix::io::Errno::ADDRINUSE.into()));
            }
            return Ok((listener.clone(), target.clone()));
        }
        let place = self.network.end(end);
        let number = self.made;
        self.made += 1;
        let token = self.token;
        let address = SocketAddr::new(place.address(), endpoint.port.unwrap_or(0));
        let made = place.within(|| listen(endpoint, address, number, &token))?.map_err(failed)?;
        let (listener, target) = (Arc::new(made.0), made.1);
        if let Some(key) = key {
            self.shared.insert(key, (group, listener.clone(), target.clone()));
        }
        Ok((listener, target))
    }
}

fn listen(endpoint: &Endpoint, address: SocketAddr, number: usize, token: &Token) -> io::Result<(OwnedFd, Target)> {
    let socket = link::socket(endpoint)?;
    if endpoint.protocol == Protocol::Unix {
        // A name that is in no file system is gone with its socket (unix(7)).
        let random: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = rustix::net::SocketAddrUnix::new_abstract_name(format!("holdup-{random}-{number}").as_bytes())?;
        rustix::net::bind(&socket, &name)?;
        rustix::net::listen(&socket, BACKLOG)?;
        return Ok((socket, Target::Unix(name)));
    }
    if endpoint.protocol == Protocol::Tcp {
        // Connections of the trial before may still be in TIME_WAIT at this port.
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    if endpoint.protocol == Protocol::Tcp {
        rustix::net::listen(&socket, BACKLOG)?;
    }
    let target = Target::Internet(sockets::local_address(socket.as_fd())?);
    Ok((socket, target))
}

/// All strands of a pass: those of the client first, the server's in the same order.
pub(crate) struct Ready {
    pub(crate) strands: Vec<Strand>,
    /// Datagram sockets that outlive connections.
    pub(crate) datagram_sockets: Vec<Arc<OwnedFd>>,
}

/// Makes the strands of all groups.
pub(crate) fn strands(
    pairs: &[Pair],
    setup: &Setup,
    network: &Network,
    board: &Arc<Strands>,
    token: Token,
) -> Result<Ready, Problem> {
    let mut listeners = Listeners { network, shared: BTreeMap::new(), made: 0, token };
    let (mut client, mut server, mut datagram_sockets) = (Vec::new(), Vec::new(), Vec::new());
    for (group, pair) in pairs.iter().enumerate() {
        for _ in 0..pair.client.strands {
            let (client_ways, server_ways) = ways(pair, group, &mut listeners, &mut datagram_sockets)?;
            client.push((pair.client.clone(), client_ways, pair.client_files.clone()));
            server.push((pair.server.clone(), server_ways, pair.server_files.clone()));
        }
    }
    let count = client.len();
    let strand = |(index, (program, ways, files)): (usize, (Arc<Program>, Vec<Option<Way>>, _))| {
        let is_client = index < count;
        let end = if is_client { End::Client } else { End::Server };
        let cpus = if is_client { setup.placement.client.clone() } else { setup.placement.server.clone() };
        let bytes = program.buffer_bytes.clamp(64 << 10, MOST_CALL_BYTES) as usize;
        let receives = receives(&program);
        Strand {
            strands: board.clone(),
            index,
            peer: if is_client { index + count } else { index - count },
            is_client,
            ways,
            files,
            place: network.end(end).clone(),
            cpus,
            token,
            buffer: vec![0; bytes],
            connections: Connections::new(program.slots),
            receives,
            // Another one for each strand, and never 0.
            random: 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(index as u64 + 1) | 1,
            program,
        }
    };
    Ok(Ready { strands: client.into_iter().chain(server).enumerate().map(strand).collect(), datagram_sockets })
}

fn receives(program: &Program) -> Vec<bool> {
    let mut receives = vec![false; usize::from(program.slots)];
    for step in program.phases.iter().flat_map(|phase| &phase.steps) {
        let slot = match step.action {
            Action::Receive(transfer) | Action::Send(transfer) => transfer.slot,
            Action::SendFiles { slot, .. } => slot,
            _ => continue,
        };
        // Who only sends waits as well until the other end has received all of it.
        receives[usize::from(slot)] = true;
    }
    receives
}

type Ways = Vec<Option<Way>>;

/// For each step of both ends, where it waits or calls.
fn ways(
    pair: &Pair,
    group: usize,
    listeners: &mut Listeners<'_>,
    datagram_sockets: &mut Vec<Arc<OwnedFd>>,
) -> Result<(Ways, Ways), Problem> {
    let steps = |program: &Program| program.phases.iter().flat_map(|phase| phase.steps.clone()).collect::<Vec<_>>();
    let (client_steps, server_steps) = (steps(&pair.client), steps(&pair.server));
    let mut ways = (vec![None; client_steps.len()], vec![None; server_steps.len()]);
    // A strand waits for all connections of one kind in one place.
    let mut own: BTreeMap<(bool, u16), (Arc<OwnedFd>, Target)> = BTreeMap::new();
    for (number, (client, server)) in client_steps.iter().zip(&server_steps).enumerate() {
        let (Action::Open { accepts, endpoint: client, .. }, Action::Open { endpoint: server, .. }) =
            (client.action, server.action)
        else {
            continue;
        };
        let (end, program, endpoint) =
            if accepts { (End::Client, &pair.client, client) } else { (End::Server, &pair.server, server) };
        let (listener, target) = match own.get(&(accepts, endpoint)) {
            Some(known) => known.clone(),
            None => {
                let description = &program.endpoints[usize::from(endpoint)];
                let made = listeners.get(group, end, description)?;
                if description.protocol == Protocol::Udp {
                    datagram_sockets.push(made.0.clone());
                }
                own.insert((accepts, endpoint), made.clone());
                made
            }
        };
        let (waits, calls) = (Some(Way::Waits(listener)), Some(Way::Calls(target)));
        (ways.0[number], ways.1[number]) = if accepts { (waits, calls) } else { (calls, waits) };
    }
    Ok(ways)
}
