//! The head of a bundle, and the clock of its times.

use crate::run::RunRequest;
use holdup_model::bundle::BundleHead;
use holdup_watch::unix_ns;
use std::fmt::{self, Display, Write};

/// When simulated trials begin: the begin of 1970. A simulation has no date, and the same one must give the same bundle.
pub(crate) const VIRTUAL_BEGIN_UNIX_NS: i64 = 0;

/// What the times in a bundle are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// This host's.
    Host,
    /// None: a simulation gives the same bundle at any time.
    Simulated,
}

impl Clock {
    /// The time to write down, ns since 1970.
    pub(crate) fn unix_ns(self) -> i64 {
        match self {
            Clock::Host => unix_ns(),
            Clock::Simulated => VIRTUAL_BEGIN_UNIX_NS,
        }
    }
}

/// FNV-1a (Fowler, Noll, Vo) of what is written, which need not be in memory as a whole.
struct TextHash(u64);

impl Write for TextHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let next = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.0 = text.bytes().fold(self.0, next);
        Ok(())
    }
}

/// A number made of a text.
pub(crate) fn number_of(text: &impl Display) -> u64 {
    let mut hash = TextHash(0xcbf2_9ce4_8422_2325);
    write!(hash, "{text}").expect("a hash takes any text");
    hash.0
}

/// Options with a value that say where something is computed and put, and not what.
const OF_PLACE: [&str; 7] = ["--out", "-o", "--on", "--state", "--parts", "--slurm-option", "--stage-file"];
/// One whose value may be left away.
const STAGE: &str = "--stage";

/// The command line without what says where trials run and the bundle is: the same simulation, or import, is the same
/// under any name and on any machine. Words after `--` are those of a program.
pub(crate) fn without_place(command: &[String]) -> Vec<String> {
    let own = command.iter().position(|word| word == "--").unwrap_or(command.len());
    let mut words = command[..own].iter();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word.split_once('=').unwrap_or((word, "")) {
            (STAGE, _) => {}
            (option, _) if !OF_PLACE.contains(&option) => kept.push(word.to_owned()),
            _ if word.contains('=') => {}
            _ => drop(words.next()),
        }
    }
    kept.extend_from_slice(&command[own..]);
    kept
}

/// What stands at the begin of a run's bundle, but for what its times are.
pub(crate) fn head(request: &RunRequest<'_>, clock: Clock) -> BundleHead {
    let created_unix_ns = clock.unix_ns();
    let (run_id, command) = match clock {
        Clock::Host => (format!("{:016x}{:08x}", created_unix_ns, std::process::id()), request.command.clone()),
        Clock::Simulated => {
            let words = [request.plan_source, &format!("{:?}", request.plan)].concat();
            (format!("{:016x}{:08x}", number_of(&words), 0), without_place(&request.command))
        }
    };
    BundleHead {
        run_id,
        holdup_version: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        created_unix_ns,
        target: request.plan.target.clone(),
        emulated: None,
        machine: request.machine,
    }
}
