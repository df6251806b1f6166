//! A session on another host.

use super::ends;
use super::host::AtHost;
use crate::asking::{CLOSE_TIMEOUT, NoAnswer, OPEN_TIMEOUT, out_of_turn, trial_timeout};
use crate::session::{Closed, Session, SessionRequest, TrialDraft};
use holdup_load::Cancel;
use holdup_model::ends::ClientHostsView;
use holdup_model::progress::Silent;
use holdup_model::wire::{Answer, Order, Work};
use holdup_model::{Arm, Event, Fact, Observer, Problem, ProblemKind, Trial, TrialSpec, TrialStatus};
use holdup_watch::unix_ns;

/// An open session there. When it is dropped the line ends, and the agent restores its host.
pub(crate) struct SshSession<'a> {
    request: &'a SessionRequest<'a>,
    host: AtHost,
    environment: Vec<Fact>,
    /// The line is gone.
    lost: bool,
}

impl<'a> SshSession<'a> {
    pub(super) fn open(
        request: &'a SessionRequest<'a>,
        mut host: AtHost,
        mut work: Work,
        reached_as: Option<String>,
        observer: &mut dyn Observer,
    ) -> Result<Self, Problem> {
        let timeout = OPEN_TIMEOUT + request.ssh.wait;
        // Of the kind of a trial that failed: another connection may do better.
        let lost =
            |host: &AtHost, no: &NoAnswer| host.problem(no, "while the session was opened").of_kind(ProblemKind::Trial);
        if let Err(no) = host.compare_clocks(&request.cancel, observer) {
            return Err(match no {
                NoAnswer::Cancelled => Problem::interrupted("opening the session"),
                no => lost(&host, &no),
            });
        }
        work.clients = reached_as
            .map(|reached_as| ClientHostsView { reached_as, clocks: ends::clocks(&host.clients, host.clock()) });
        let environment = match host.ask(&Order::Open(Box::new(work)), timeout, &request.cancel, observer) {
            Ok(Answer::Opened(Ok(facts))) => facts,
            Ok(Answer::Opened(Err(problem))) => {
                let problem = host.inside(problem);
                let _clients = ends::close(std::mem::take(&mut host.clients));
                host.end();
                return Err(problem);
            }
            Ok(other) => return Err(host.inside(out_of_turn(&other))),
            Err(NoAnswer::Cancelled) => {
                // The agent answers when it has put back what it had set.
                let _answer = host.stop(CLOSE_TIMEOUT);
                let _clients = ends::close(std::mem::take(&mut host.clients));
                host.end();
                return Err(Problem::interrupted("opening the session"));
            }
            Err(no) => return Err(lost(&host, &no)),
        };
        let of_clients = ends::facts(&host.clients, host.clock());
        // Ends that reach each other have compared their clocks themselves, which is more exact.
        let is_new = |fact: &Fact| environment.iter().all(|known| known.key != fact.key);
        let of_clients: Vec<Fact> = of_clients.into_iter().filter(is_new).collect();
        let environment: Vec<Fact> = environment.into_iter().chain(host.facts()).chain(of_clients).collect();
        for note in ends::clocks_in_words(&host.clients, &environment) {
            observer.event(Event::Note(&note));
        }
        Ok(SshSession { request, host, environment, lost: false })
    }
}

impl SshSession<'_> {
    /// Connects once more after the line was lost, to learn what became of the host, and to have put back what an agent that
    /// was killed could not.
    fn restore_anew(&self, of: &AtHost, closed: &mut Closed) {
        let address = of.address();
        let answered = AtHost::over(self.request.host, self.request.ssh, address, &Cancel::default(), &mut Silent)
            .and_then(|mut host| {
                closed.notes.extend(host.said());
                let answer = host.ask(&Order::Close, OPEN_TIMEOUT, &Cancel::default(), &mut Silent);
                let answer = answer.map_err(|no| host.problem(&no, "while it was restored"))?;
                host.end();
                match answer {
                    Answer::Closed { result, .. } => result,
                    other => Err(out_of_turn(&other)),
                }
            });
        match answered {
            Ok(notes) => closed.notes.extend(notes.iter().map(|note| format!("{address}: {note}"))),
            Err(problem) => closed.left = Some(of.not_known(&problem)),
        }
    }
}

impl Session for SshSession<'_> {
    fn environment(&mut self) -> Vec<Fact> {
        self.environment.clone()
    }

    fn trial(&mut self, arm: &Arm, spec: &TrialSpec, seed: u64) -> TrialDraft {
        let started_unix_ns = unix_ns();
        let order = Order::Trial { arm: Box::new(arm.clone()), spec: *spec, seed };
        let timeout = trial_timeout(self.request.plan, arm, false);
        let mut answer = self.host.ask(&order, timeout, &self.request.cancel, &mut Silent);
        if matches!(answer, Err(NoAnswer::Cancelled)) {
            answer = self.host.stop(CLOSE_TIMEOUT);
        }
        let problem = match answer {
            Ok(Answer::Ran(ran)) => {
                let mut trial = ran.trial;
                // What happened is placed by the clock of this machine; the other one's may be hours off.
                (trial.started_unix_ns, trial.ended_unix_ns) = (started_unix_ns, unix_ns());
                return TrialDraft { trial, problem: ran.problem };
            }
            Ok(other) => self.host.inside(out_of_turn(&other)),
            Err(no) => self.host.problem(&no, "in a trial"),
        };
        self.lost = true;
        let mut trial = Trial::begun(started_unix_ns);
        trial.status = TrialStatus::Void { reason: format!("{}: {}", problem.what, problem.why) };
        trial.ended_unix_ns = unix_ns();
        TrialDraft { trial, problem: Some(problem) }
    }

    fn close(mut self: Box<Self>) -> Closed {
        let mut closed = Closed::default();
        // Load that has no server any more would wait for it.
        let (notes, lost) = ends::close(std::mem::take(&mut self.host.clients));
        closed.notes.extend(notes);
        lost.iter().for_each(|at| self.restore_anew(at, &mut closed));
        if self.lost {
            self.restore_anew(&self.host, &mut closed);
            return closed;
        }
        // A host is put back also for a user who asked to end.
        match self.host.ask(&Order::Close, CLOSE_TIMEOUT, &Cancel::default(), &mut Silent) {
            Ok(Answer::Closed { result: Ok(notes), .. }) => {
                closed.notes.extend(notes.iter().map(|note| format!("{}: {note}", self.host.address())));
            }
            Ok(Answer::Closed { result: Err(problem), .. }) => closed.left = Some(self.host.inside(problem)),
            Ok(other) => closed.notes.push(out_of_turn(&other).to_string()),
            Err(no) => {
                closed.notes.push(self.host.problem(&no, "while the session was closed").to_string());
                self.restore_anew(&self.host, &mut closed);
                return closed;
            }
        }
        self.host.end();
        closed
    }
}
