//! The server.

use super::MOST_CONNECTIONS;
use super::messages::{Answer, Begin, Counts, Order};
use crate::connect::{self, HangUp};
use crate::counts::{Flows, Workers};
use crate::limit::FileLimit;
use crate::setup::SocketOptions;
use crate::sockets;
use crate::trial::{Side, gave_up};
use holdup_host::Host;
use holdup_host::network::{Network, Options, Topology};
use holdup_load::board::phase;
use holdup_load::peer::{RemoteEnd, order_out_of_turn};
use holdup_load::worker_pool::{Sharing, WorkerPool};
use holdup_model::Problem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The server of one trial, as far as it has come. Dropping it ends all of it.
#[derive(Default)]
pub struct ServerSide(State);

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Listening(Begin, OwnedFd, FileLimit),
    Working(Box<Working>),
}

struct Working {
    // Dropped in this order: connections are ended, workers end, sockets are closed.
    line: HangUp,
    pool: WorkerPool,
    flows: Arc<Flows>,
    workers: Arc<Workers>,
    begin: Begin,
    sockets: Vec<OwnedFd>,
    network: Network,
    _limit: FileLimit,
}

impl RemoteEnd for ServerSide {
    type Order = Order;
    type Answer = Answer;

    fn carry_out(&mut self, host: &Host, address: IpAddr, order: Order) -> Result<Answer, Problem> {
        let state = std::mem::take(&mut self.0);
        let (state, answer) = match (order, state) {
            (Order::Begin(begin), _) => {
                let (state, port) = listen(begin, address)?;
                (state, Answer::Listening(port))
            }
            (Order::Work(from), State::Listening(begin, listener, limit)) => {
                let (working, strangers) = Working::start(host, begin, &listener, &from, limit)?;
                (State::Working(Box::new(working)), Answer::Working(strangers))
            }
            (Order::Read, State::Working(working)) => {
                let answer = Answer::Edge(working.counts());
                if let Some(why) = gave_up(&working.workers, 0) {
                    return Err(Problem::trial("a worker is gone", why));
                }
                (State::Working(working), answer)
            }
            (Order::End, State::Working(working)) => (State::Idle, Answer::Ended(working.end()?)),
            (order, _) => return order_out_of_turn(&order),
        };
        self.0 = state;
        Ok(answer)
    }
}

fn options(begin: &Begin) -> SocketOptions {
    SocketOptions { no_delay: begin.no_delay, send_buffer: begin.send_buffer, receive_buffer: begin.receive_buffer }
}

fn listen(begin: Begin, address: IpAddr) -> Result<(State, u16), Problem> {
    let (connections, workers) = (begin.sends.len(), begin.workers);
    let in_bounds = (1..=MOST_CONNECTIONS).contains(&connections) && (1..=connections).contains(&workers);
    if !in_bounds || begin.size == 0 {
        let what = format!("{connections} connections with {workers} workers");
        return Err(Problem::usage(what, format!("from 1 to {MOST_CONNECTIONS}, and as many workers at most")));
    }
    let limit = FileLimit::raise(connections as u64)?;
    let failed = |e: std::io::Error| Problem::trial("tcp connections", format!("they cannot be taken: {e}"));
    let listener = connect::listen(address, &options(&begin)).map_err(failed)?;
    let port = sockets::local_address(listener.as_fd()).map_err(failed)?.port();
    Ok((State::Listening(begin, listener, limit), port))
}

impl Working {
    fn start(
        host: &Host,
        begin: Begin,
        listener: &OwnedFd,
        from: &[SocketAddr],
        limit: FileLimit,
    ) -> Result<(Self, u64), Problem> {
        let failed = |e: std::io::Error| Problem::trial("tcp connections", format!("they cannot be taken: {e}"));
        if from.len() != begin.sends.len() {
            return Err(Problem::internal("the peer", "there are not as many addresses as connections"));
        }
        let (sockets, strangers) = connect::accept_from(listener, from).map_err(failed)?;
        let count = sockets.len();
        let no_memory = |e: std::io::Error| Problem::trial(format!("{count} connections"), format!("no memory: {e}"));
        let flows = Arc::new(Flows::new(count).map_err(no_memory)?);
        let workers = Arc::new(Workers::new(begin.workers).map_err(no_memory)?);
        let network = Network::make(Topology::Host, Options::default(), host)?;
        let ends = sockets.iter().map(sockets::number).zip(begin.sends.iter().copied()).collect();
        let side = Side {
            ends,
            workers: begin.workers,
            first: 0,
            size: begin.size,
            interval_ns: begin.interval_ns,
            is_udp: false,
            is_apart: true,
            cpus: None,
        };
        let jobs = side.jobs(&flows, &workers)?;
        let stop = workers.clone();
        let pool = WorkerPool::start(begin.sharing(), "stream", jobs, move || stop.stage().enter(phase::STOP))?;
        workers.stage().enter(phase::WARM);
        let line = HangUp(sockets.iter().map(sockets::number).collect());
        Ok((Working { line, pool, flows, workers, begin, sockets, network, _limit: limit }, strangers))
    }

    fn counts(&self) -> Counts {
        let moved = |(flow, sends): (&crate::counts::Flow, &bool)| {
            let side = if *sends { &flow.sent.0 } else { &flow.received.0 };
            (side.bytes.load(Ordering::Acquire), side.transfers.load(Ordering::Acquire))
        };
        let processes = self.begin.sharing() == Sharing::Processes;
        Counts {
            moved: self.flows.slots().zip(&self.begin.sends).map(moved).collect(),
            cpu_ns: self.workers.slots().map(|worker| worker.cpu_ns(processes)).sum(),
            retransmitted: self.network.counters().ok().and_then(|counters| counters.client.tcp_retransmitted()),
        }
    }

    fn end(self) -> Result<Counts, Problem> {
        let Working { mut line, pool, flows, workers, begin, sockets, network, _limit } = self;
        // They end in order, each when the other end is done.
        line.0.clear();
        pool.finish(&|| false)?;
        if let Some(why) = gave_up(&workers, 0) {
            return Err(Problem::trial("a worker is gone", why));
        }
        let left = WorkerPool::start(Sharing::Threads, "none", Vec::new(), || ())?;
        // The workers have ended, so their CPU time is no longer available; the bytes that they moved are.
        let counts = Working { line, pool: left, flows, workers, begin, sockets, network, _limit }.counts();
        Ok(Counts { cpu_ns: None, ..counts })
    }
}
