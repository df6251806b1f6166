//! The parameters of `messenger`, read and checked.

use crate::messenger::message::STAMP_BYTES;
use holdup_catalogue::messenger::{self, Transport};
use holdup_host::Host;
use holdup_load::files;
use holdup_load::placement::Placement;
use holdup_load::worker_pool::Sharing;
use holdup_model::{Parameters, Problem};
use holdup_stream::apart::MOST_CONNECTIONS;
use serde::{Deserialize, Serialize};

/// The most senders and receivers of all groups together.
pub const MOST_TASKS: u64 = 16_384;
/// A larger message may be cut by the kernel where several write to one pipe (PIPE_BUF, pipe(7)) or socket, so that
/// what is received as one message was sent by two.
pub const LARGEST_WHOLE: usize = 4096;

/// One arm's parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    pub groups: usize,
    /// Senders of each group.
    pub senders: usize,
    /// Receivers of each group.
    pub receivers: usize,
    /// Length of a message, bytes.
    pub size: usize,
    /// Threads or processes.
    pub sharing: Sharing,
    /// What messages go through.
    pub transport: Transport,
    /// Messages of each sender to each receiver of its group; `None` for endless.
    pub messages: Option<u64>,
    /// One of n messages is timed; `None` for none.
    pub sample_every: Option<u64>,
    /// Senders are the client side, receivers the server side. Each host has its own.
    #[serde(skip)]
    pub placement: Placement,
}

impl Setup {
    /// Reads the parameters of an arm, defaults included, and checks that there is room for them.
    ///
    /// # Errors
    /// When a value is missing, of the wrong type or out of bounds, when there are more tasks or files than fit, or no
    /// CPUs as asked for.
    pub fn read(parameters: &Parameters, host: &Host) -> Result<Self, Problem> {
        let p = messenger::Parameters::read(parameters)?;
        let setup = Setup {
            groups: p.groups as usize,
            senders: p.senders as usize,
            receivers: p.receivers as usize,
            size: p.size as usize,
            sharing: p.sharing,
            transport: p.transport,
            messages: Some(p.messages).filter(|messages| *messages > 0),
            sample_every: p.timing.then_some(p.sample_every),
            placement: Placement::on(p.placement, host)?,
        };
        setup.fits()?;
        Ok(setup)
    }

    fn fits(&self) -> Result<(), Problem> {
        if self.tasks() as u64 > MOST_TASKS {
            return Err(Problem::usage(
                format!("{} groups of {} + {} tasks", self.groups, self.senders, self.receivers),
                format!("{} tasks are more than {MOST_TASKS}", self.tasks()),
            ));
        }
        if self.sample_every.is_some() && self.size < STAMP_BYTES {
            return Err(Problem::usage(
                format!("size {}", self.size),
                format!("a message with its time of sending has at least {STAMP_BYTES} bytes"),
            )
            .hint("take a larger size, or timing = off"));
        }
        if self.sample_every.is_some() && self.size > LARGEST_WHOLE && self.senders > 1 {
            return Err(Problem::usage(
                format!("size {}", self.size),
                format!(
                    "several senders write to one receiver, and the kernel cuts messages over {LARGEST_WHOLE} bytes"
                ),
            )
            .hint("take a smaller size, senders = 1, or timing = off"));
        }
        files::fit(self.files())
    }

    /// Whether senders and receivers may be on two hosts.
    ///
    /// # Errors
    /// Of kind `Usage` when they may not.
    pub(crate) fn check_two_ends(&self) -> Result<(), Problem> {
        let refuse =
            |what: String, why: &str, hint: &str| Err(Problem::usage(format!("{what} with [hosts]"), why).hint(hint));
        if self.transport != Transport::Tcp {
            let what = format!("transport {}", self.transport.word());
            return refuse(what, "it does not leave its host", "transport = tcp");
        }
        if self.placement != Placement::default() {
            return refuse("placement".to_owned(), "each host places its own side", "placement = none");
        }
        let connections = self.groups * self.receivers;
        if connections > MOST_CONNECTIONS {
            return refuse(
                format!("{connections} connections"),
                "a listener holds 1000",
                "take fewer groups or receivers",
            );
        }
        Ok(())
    }

    /// Senders and receivers of all groups.
    pub fn tasks(&self) -> usize {
        self.groups * (self.senders + self.receivers)
    }

    /// How many files they open: two ends for each receiver, and a listening socket.
    pub fn files(&self) -> u64 {
        (self.groups * self.receivers * 2 + 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Value;

    #[test]
    fn parameters_are_checked_before_anything_starts() {
        let check = |changes: &[(&str, Value)], expect: Result<(), &str>| {
            let mut parameters = messenger::Parameters::defaults(2);
            for (name, value) in changes {
                parameters.set(name, value.clone());
            }
            let got = Setup::read(&parameters, &Host::real()).map(|_| ()).map_err(|p| format!("{}: {}", p.what, p.why));
            assert_eq!(got, expect.map_err(str::to_owned), "{changes:?}");
        };
        check(&[], Ok(()));
        check(&[("messages", 0.into())], Ok(()));
        check(&[("size", 0.into())], Err("size 0: it must be from 1B to 1MB"));
        check(&[("size", (1 << 30).into())], Err("size 1073741824: it must be from 1B to 1MB"));
        check(&[("size", 15.into())], Err("size 15: a message with its time of sending has at least 16 bytes"));
        check(&[("size", 15.into()), ("timing", false.into())], Ok(()));
        check(
            &[("size", 4097.into())],
            Err("size 4097: several senders write to one receiver, and the kernel cuts messages over 4096 bytes"),
        );
        check(&[("size", 4097.into()), ("senders", 1.into())], Ok(()));
        check(&[("groups", 410.into())], Err("410 groups of 20 + 20 tasks: 16400 tasks are more than 16384"));
        check(&[("groups", 0.into())], Err("groups 0: it must be from 1 to 8192"));
        check(
            &[("transport", "carrier pigeon".into())],
            Err("transport carrier pigeon: it must be one of socketpair, pipe, tcp"),
        );
        check(&[("sharing", "fibers".into())], Err("sharing fibers: it must be one of threads, processes"));
        check(&[("groups", "ten".into())], Err("groups ten: it must be from 1 to 8192"));
    }
}
