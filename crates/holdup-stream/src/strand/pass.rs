//! One pass of a profile: the coordinator's side.
//!
//! A profile runs once, from its first transaction to its last, each begun by all strands together. The window opens
//! with the first transaction that moves data and closes at the end of the last one that does: the profile says how
//! long that is, not the plan.

use crate::limit::FileLimit;
use crate::profile::program::{Action, Program};
use crate::profile::{MOST_FILE_BYTES, Profile};
use crate::setup::Setup;
use crate::strand::counts::Strands;
use crate::strand::prepare::{self, Pair};
use crate::strand::results;
use crate::strand::run::keeps;
use crate::{counts, sockets};
use holdup_files::read_input;
use holdup_host::Host;
use holdup_host::network::Counters;
use holdup_load::board::phase;
use holdup_load::worker_pool::{self, Sharing, WorkerPool};
use holdup_load::{Cancel, TrialContext, TrialResult};
use holdup_model::{Parameters, Problem};

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the coordinator looks at the strands.
const LOOK: Duration = Duration::from_micros(500);

/// What a pass leaves.
pub(crate) struct Passed<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) profile: &'a Profile,
    pub(crate) pairs: &'a [Pair],
    pub(crate) strands: &'a Strands,
    /// When each transaction began, ns.
    pub(crate) begun_ns: &'a [u64],
    /// CPU time of both ends at the edges of the window.
    pub(crate) cpu_ns: [[Option<u64>; 2]; 2],
    /// What was left in datagram sockets, and what they dropped.
    pub(crate) left: Left,
    pub(crate) counters: &'a Counters,
}

/// What remained in the sockets of a pass.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Left {
    pub(crate) bytes: u64,
    pub(crate) datagrams: u64,
    pub(crate) dropped: u64,
}

/// Reads a profile with the variables of the environment. What is not there is `$h`, the server's address, and
/// `$conns` or `$nthr`, `$proto`, `$size`, `$duration` or `$dur`, which are the trial's own.
pub fn read(path: &Path, setup: &Setup, duration_ns: u64) -> Result<Profile, Problem> {
    let name = path.display().to_string();
    let failed = |e: std::io::Error| {
        Problem::usage(format!("profile {name}"), format!("cannot be read: {e}"))
            .hint("the parameter profile names a file of uperf")
    };
    let bytes = read_input(path, MOST_FILE_BYTES as u64).map_err(failed)?;
    let variables = |variable: &str| {
        let own = || match variable {
            "h" => Some("server".to_owned()),
            "conns" | "nthr" => Some(setup.connections.to_string()),
            "proto" => Some(setup.protocol.word().to_owned()),
            "size" => Some(setup.size.to_string()),
            "duration" | "dur" => Some(format!("{duration_ns}ns")),
            _ => None,
        };
        std::env::var(variable).ok().or_else(own)
    };
    Profile::read(&name, &bytes, &variables).map_err(Problem::from)
}

/// The parameters that replace a profile, for engines that run no profiles; without a profile they stay as they are.
///
/// # Errors
/// When the profile cannot be read, or does more than connections that move data for a while.
pub fn without_profile(parameters: &Parameters, host: &Host) -> Result<Parameters, Problem> {
    let Some(path) = parameters.text("profile")? else { return Ok(parameters.clone()) };
    // Where the ends run is not for this host to say.
    let mut anywhere = parameters.clone();
    anywhere.set("placement", "none");
    let profile = read(Path::new(path), &Setup::read(&anywhere, host)?, ANY_DURATION_NS)?;
    let simple = profile.as_simple().ok_or_else(|| {
        Problem::host(format!("profile {path}"), "it does more than to connect, to move data and to disconnect")
            .hint("give size, mode and connections instead")
    })?;
    let mut plain = parameters.clone();
    plain.0.remove("profile");
    plain.set("connections", i64::from(simple.connections));
    plain.set("sharing", if simple.processes { "processes" } else { "threads" });
    plain.set("protocol", simple.protocol.word());
    plain.set("size", simple.size_bytes as i64);
    plain.set("mode", simple.mode.word());
    Ok(plain)
}

/// For reading a profile where it does not matter how long a trial is.
const ANY_DURATION_NS: u64 = 1_000_000_000;

/// Runs one pass.
///
/// # Errors
/// Of kind `Trial` when it is void, of kind `Usage` when the profile cannot be run, of kind `Host` when this machine
/// does not have what it takes, of kind `Interrupted` when it was cancelled.
pub fn run(setup: &Setup, path: &Path, host: &Host, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
    let profile = read(path, setup, trial.duration_ns)?;
    let pairs = prepare::pairs(&profile, setup)?;
    let count: usize = pairs.iter().map(|pair| pair.client.strands as usize).sum();
    let open = |pair: &Pair| u64::from(pair.client.strands) * (pair.client.most_open.unwrap_or(64) + 1);
    let _limit = FileLimit::raise(pairs.iter().map(open).sum())?;
    let network = setup.network.make(host)?;
    let board = Strands::new(2 * count)
        .map_err(|e| Problem::trial(format!("{count} strands"), format!("no memory for their counts: {e}")))?;
    let board = Arc::new(board);
    let mut token = [0; 16];
    // SAFETY: the kernel writes as many bytes as the token has.
    if unsafe { libc::getrandom(token.as_mut_ptr().cast(), token.len(), 0) } != token.len() as isize {
        return Err(Problem::host("getrandom(2)", std::io::Error::last_os_error().to_string()));
    }
    let ready = prepare::strands(&pairs, setup, &network, &board, token)?;
    let counters_before = network.counters()?;
    let is_processes = profile.groups.iter().any(|group| group.processes);
    let sharing = if is_processes { Sharing::Processes } else { Sharing::Threads };
    let jobs = ready.strands.into_iter().map(|strand| {
        let keeps = keeps(&strand);
        worker_pool::Job::new(move || strand.run()).keeping(keeps)
    });
    let stop = board.clone();
    let pool = WorkerPool::start(sharing, "strand", jobs.collect(), move || {
        stop.stage().enter(phase::STOP);
        stop.head().wake();
    })?;
    let mut lead = Lead { board: &board, pairs: &pairs, pool, processes: is_processes, cancel: trial.cancel.clone() };
    let (begun_ns, cpu_ns) = lead.through(trial.window)?;
    lead.finish()?;
    let left = leftovers(&ready.datagram_sockets);
    let counters = network.counters()?.minus(&counters_before);
    results::of(&Passed {
        setup,
        profile: &profile,
        pairs: &pairs,
        strands: &board,
        begun_ns: &begun_ns,
        cpu_ns,
        left,
        counters: &counters,
    })
}

/// True if a transaction moves data.
pub(crate) fn moves_data(program: &Program, number: usize) -> bool {
    let moves = |action: Action| matches!(action, Action::Send(_) | Action::Receive(_) | Action::SendFiles { .. });
    program.phases.get(number).is_some_and(|phase| phase.steps.iter().any(|step| moves(step.action)))
}

/// The transactions between whose begin and end the window lies: the first and the last that move data, or all.
pub(crate) fn window_of(pairs: &[Pair]) -> (usize, usize) {
    let transactions = pairs.iter().map(|pair| pair.client.phases.len()).max().unwrap_or(0);
    let mut moving = (0..transactions).filter(|number| pairs.iter().any(|pair| moves_data(&pair.client, *number)));
    match moving.next() {
        None => (0, transactions.saturating_sub(1)),
        Some(first) => (first, moving.next_back().unwrap_or(first)),
    }
}

fn leftovers(kept: &[Arc<OwnedFd>]) -> Left {
    let mut left = Left::default();
    let mut buffer = vec![0; 1 << 16];
    for socket in kept {
        let socket = sockets::number(socket);
        while let Ok(got) = sockets::receive(socket, &mut buffer, libc::MSG_DONTWAIT) {
            left.bytes += got as u64;
            left.datagrams += 1;
        }
        left.dropped += sockets::drops(socket).unwrap_or(0);
    }
    left
}

struct Lead<'a> {
    board: &'a Arc<Strands>,
    pairs: &'a [Pair],
    pool: WorkerPool,
    processes: bool,
    cancel: Cancel,
}

type Readings = (Vec<u64>, [[Option<u64>; 2]; 2]);

impl Lead<'_> {
    fn through(&mut self, window: &mut dyn holdup_load::WindowHooks) -> Result<Readings, Problem> {
        let count = self.pairs.iter().map(|pair| pair.client.strands as usize).sum::<usize>();
        while self.board.stage().ready() < 2 * count {
            self.healthy()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        self.board.stage().enter(phase::WARM);
        let (first, last) = window_of(self.pairs);
        let gates = self.pairs.iter().map(|pair| pair.client.phases.len()).max().unwrap_or(0);
        let (mut begun_ns, mut cpu_ns) = (Vec::new(), [[None; 2]; 2]);
        let mut closed = Ok(());
        for gate in 0..=gates {
            let coming = self.pairs.iter().filter(|pair| pair.client.phases.len() >= gate);
            let expected: usize = coming.map(|pair| 2 * pair.client.strands as usize).sum();
            while self.board.head().arrived(gate) < expected {
                self.healthy()?;
                std::thread::sleep(LOOK);
            }
            if gate == last + 1 {
                cpu_ns[1] = self.cpu_ns(count);
                self.board.stage().enter(phase::CLOSED);
                closed = window.close().map(|_| ());
            }
            if gate == first {
                window.open(&[("load".to_owned(), std::process::id())])?;
                self.board.stage().enter(phase::OPEN);
                cpu_ns[0] = self.cpu_ns(count);
            }
            if gate < gates {
                begun_ns.push(self.board.head().open_next());
            }
        }
        closed?;
        Ok((begun_ns, cpu_ns))
    }

    fn cpu_ns(&self, count: usize) -> [Option<u64>; 2] {
        let of = |first: usize| {
            let tid = |index: usize| self.board.slot(index).tid.load(Ordering::Acquire);
            (first..first + count).map(|index| counts::cpu_ns(tid(index), self.processes)).sum()
        };
        [of(0), of(count)]
    }

    fn healthy(&mut self) -> Result<(), Problem> {
        if self.cancel.is_cancelled() {
            return Err(Problem::interrupted("the trial"));
        }
        // A strand that was killed leaves its peer with an error that says less.
        let dead = self.pool.failed();
        match dead.as_ref().filter(|why| why.contains("killed")).cloned().or_else(|| gave_up(self.board)).or(dead) {
            None => Ok(()),
            Some(why) => Err(Problem::trial("a strand is gone", why)),
        }
    }

    fn finish(self) -> Result<(), Problem> {
        self.pool.finish(&|| self.cancel.is_cancelled())?;
        if self.cancel.is_cancelled() {
            return Err(Problem::interrupted("the trial"));
        }
        gave_up(self.board).map_or(Ok(()), |why| Err(Problem::trial("a strand is gone", why)))
    }
}

fn gave_up(board: &Strands) -> Option<String> {
    let of_end = board.slots().count() / 2;
    board.slots().enumerate().find_map(|(index, slot)| {
        let why = slot.failure()?;
        let (end, index) = if index < of_end { ("client", index) } else { ("server", index - of_end) };
        Some(format!("strand {index} of the {end} end {why}"))
    })
}
