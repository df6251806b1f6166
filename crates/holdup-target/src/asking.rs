//! The side of an agent's line that gives orders: the same for guests and for hosts over ssh.

use crate::levels::parameters_of;
use holdup_load::Cancel;
use holdup_model::ends::ClientOrder;
use holdup_model::text::size;
use holdup_model::wire::{self, Answer, Hello, Order, Work};
use holdup_model::{Arm, Event, Observer, Plan, Problem, Schedule, foreign, guest::is_chosen_at_boot, plan::Level};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How often a wait checks whether it should end.
pub(crate) const POLL: Duration = Duration::from_millis(200);
/// The longest that opening a session may take: an emulated initdb and filled tables.
pub(crate) const OPEN_TIMEOUT: Duration = Duration::from_secs(1800);
/// The longest that an agent may take to check its work.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest that closing may take.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(120);
/// What a trial may take beside its planned time: restarts of a server, reading logs.
const TRIAL_GRACE: Duration = Duration::from_secs(300);
/// The same under emulation, where a kernel checks the BPF programs of the collectors for minutes before it takes them.
const EMULATED_GRACE: Duration = Duration::from_secs(1800);

/// The most that an agent says of one order in steps and notes.
const MOST_BYTES_SAID: usize = 4 << 20;

/// A line to an agent, over which whole messages go.
pub(crate) trait Line {
    /// Begins each step and note of the agent, such as with the name of its host.
    fn mark(&self) -> String {
        String::new()
    }
    /// Sends one message.
    fn send(&mut self, payload: &[u8]) -> Result<(), NoAnswer>;
    /// The next message; `None` when none came in this time.
    fn receive(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, NoAnswer>;
    /// Has client hosts do something for the agent, and answers it.
    fn for_clients(&mut self, _orders: Vec<(u32, ClientOrder)>, _cancel: &Cancel) -> Result<(), NoAnswer> {
        Err(NoAnswer::Unreadable("it asks for a client host, and there is none".to_owned()))
    }
    /// Looks at what else the work depends on.
    fn look_beside(&mut self, _observer: &mut dyn Observer) -> Result<(), NoAnswer> {
        Ok(())
    }
}

/// Why a wait for an answer ended without one.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The agent is lost, and why.
    Lost(String),
    /// The machine beside it is lost, and why.
    PeerLost(String),
    /// The user asked to end.
    Cancelled,
    /// It took longer than this; what the agent was doing then, and for how long.
    TooLong(Duration, Option<(String, Duration)>),
    /// The answer could not be read.
    Unreadable(String),
}

impl NoAnswer {
    /// What went wrong, for a user.
    pub(crate) fn why(&self) -> String {
        match self {
            NoAnswer::Lost(cause) | NoAnswer::PeerLost(cause) | NoAnswer::Unreadable(cause) => cause.clone(),
            NoAnswer::Cancelled => "interrupted".to_owned(),
            NoAnswer::TooLong(limit, None) => format!("no answer within {:.0} s", limit.as_secs_f64()),
            NoAnswer::TooLong(limit, Some((step, since))) => {
                let (limit, since) = (limit.as_secs_f64(), since.as_secs_f64());
                format!("no answer within {limit:.0} s; for the last {since:.0} s it was {step}")
            }
        }
    }
}

/// Gives an order and waits for its answer.
pub(crate) fn ask(
    line: &mut dyn Line,
    order: &Order,
    timeout: Duration,
    cancel: &Cancel,
    observer: &mut dyn Observer,
) -> Result<Answer, NoAnswer> {
    line.send(&wire::to_bytes(order))?;
    answer(line, timeout, cancel, observer)
}

/// Waits for the next answer; what comes before it goes to the observer.
pub(crate) fn answer(
    line: &mut dyn Line,
    timeout: Duration,
    cancel: &Cancel,
    observer: &mut dyn Observer,
) -> Result<Answer, NoAnswer> {
    let begun = Instant::now();
    let mut last: Option<(String, Instant)> = None;
    let mut said_bytes = 0;
    loop {
        if cancel.is_cancelled() {
            return Err(NoAnswer::Cancelled);
        }
        if begun.elapsed() > timeout {
            return Err(NoAnswer::TooLong(timeout, last.map(|(step, since)| (step, since.elapsed()))));
        }
        line.look_beside(observer)?;
        let Some(payload) = line.receive(POLL)? else { continue };
        match wire::from_bytes::<Answer>(&payload).map_err(NoAnswer::Unreadable)? {
            Answer::Alive => {}
            Answer::Refused(why) => return Err(NoAnswer::Unreadable(said(&why, &mut said_bytes)?)),
            Answer::Step(text) => {
                let text = said(&text, &mut said_bytes)?;
                observer.event(Event::Step(&(line.mark() + &text)));
                last = Some((text, Instant::now()));
            }
            Answer::Note(text) => {
                observer.event(Event::Note(&(line.mark() + &said(&text, &mut said_bytes)?)));
            }
            Answer::Clients(orders) => line.for_clients(orders, cancel)?,
            mut answer => {
                for text in texts_of(&mut answer) {
                    *text = said(text, &mut said_bytes)?;
                }
                return Ok(answer);
            }
        }
    }
}

/// Texts of an answer that are printed: its notes, or its problem.
fn texts_of(answer: &mut Answer) -> Vec<&mut String> {
    let problem = match answer {
        Answer::Hello(hello) => return hello.notes.iter_mut().collect(),
        Answer::Checked(Ok(checked)) => return checked.notes.iter_mut().collect(),
        Answer::Closed { result: Ok(notes), .. } => return notes.iter_mut().collect(),
        Answer::Ran(ran) => ran.problem.as_mut(),
        Answer::Checked(Err(problem))
        | Answer::Opened(Err(problem))
        | Answer::OfClient(Err(problem))
        | Answer::Closed { result: Err(problem), .. }
        | Answer::Calibrated(Err(problem)) => Some(problem),
        _ => None,
    };
    problem.into_iter().flat_map(|p| [&mut p.what, &mut p.why].into_iter().chain(&mut p.hint)).collect()
}

/// One more step or note of an agent, on one line.
fn said(text: &str, so_far_bytes: &mut usize) -> Result<String, NoAnswer> {
    // Empty ones take room too.
    *so_far_bytes += text.len() + 256;
    match *so_far_bytes <= MOST_BYTES_SAID {
        true => Ok(foreign::line(text)),
        false => Err(NoAnswer::Unreadable(format!("its notes exceed {}", size(MOST_BYTES_SAID as u64)))),
    }
}

/// An answer that does not belong to the order.
pub(crate) fn out_of_turn(answer: &Answer) -> Problem {
    let kind: String = format!("{answer:?}").chars().take(40).collect();
    Problem::host("the agent", format!("an answer came out of turn: {kind}"))
        .hint("look at what runs there: an agent of holdup answers in turn")
}

/// The hello of an agent of this version.
pub(crate) fn of_this_version(hello: Hello, who: &str) -> Result<Hello, NoAnswer> {
    if hello.version == env!("CARGO_PKG_VERSION") {
        return Ok(hello);
    }
    let why = format!("{who} is holdup {}, this is {}", hello.version, env!("CARGO_PKG_VERSION"));
    Err(NoAnswer::Unreadable(why))
}

/// The longest that a trial of this arm may take. Emulated programs take longer than planned to start and to stop, and a
/// command takes its own time.
pub(crate) fn trial_timeout(plan: &Plan, arm: &Arm, is_emulated: bool) -> Duration {
    let design = &plan.design;
    let planned_ns = design.settle_ns.saturating_add(design.warmup_ns).saturating_add(design.duration_ns);
    let own = plan.workload(&arm.workload).and_then(|used| parameters_of(used, arm).integer("timeout").ok()?);
    let own_ns = own.map_or(0, i64::unsigned_abs);
    let grace = if is_emulated { EMULATED_GRACE } else { TRIAL_GRACE };
    Duration::from_nanos(planned_ns.saturating_mul(4).saturating_add(own_ns)) + grace
}

/// What an agent is to do for these arms.
pub(crate) fn work(
    plan: &Plan,
    arms: Vec<Arm>,
    postgres_bin: Option<String>,
    postgres_builds: BTreeMap<String, String>,
) -> Work {
    let mut plan = plan.clone();
    plan.exclude.clear();
    plan.settings.retain(|(name, _)| !is_chosen_at_boot(name));
    plan.factors.retain(|f| !is_chosen_at_boot(&f.name));
    plan.workloads.retain(|w| arms.iter().any(|arm| arm.workload == w.name));
    for factor in &mut plan.factors {
        // A level that no arm of this session has would be asked of a kernel that may not offer it.
        factor.levels.retain(|level| occurs(&arms, &factor.name, level));
    }
    plan.factors.retain(|f| !f.levels.is_empty());
    Work {
        plan,
        schedule: Schedule { arms, trials: Vec::new() },
        postgres_bin,
        postgres_url: None,
        clients: None,
        postgres_builds,
    }
}

fn occurs(arms: &[Arm], factor: &str, level: &Level) -> bool {
    arms.iter().any(|arm| arm.factors.get(factor) == Some(level))
}

pub(crate) fn arms_of(schedule: &Schedule, boot: u32) -> Vec<Arm> {
    let numbers: BTreeSet<u32> = schedule.trials.iter().filter(|t| t.boot == boot).map(|t| t.arm).collect();
    schedule.arms.iter().filter(|arm| numbers.contains(&arm.id)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Machine;

    #[test]
    fn what_is_waited_for_has_its_own_time_and_that_of_emulation() {
        let limits = |text: &str| {
            let (plan, schedule) = crate::checked(text, Machine { cpus: 2, memory_bytes: 8 << 30 });
            [false, true].map(|is_emulated| trial_timeout(&plan, &schedule.arms[0], is_emulated).as_secs())
        };
        let design = "\n[design]\nwarmup = \"1s\"\nduration = \"2s\"\nsettle = \"0s\"\n";
        let locks = format!("[[workload]]\nkind = \"lock-contention\"\n{design}");
        assert_eq!(limits(&locks), [312, 1812]);
        let command = format!("[[workload]]\nkind = \"command\"\ncommand = [\"true\"]\ntimeout = \"20m\"\n{design}");
        assert_eq!(limits(&command), [1512, 3012]);
    }

    /// A host that says this again and again.
    struct AnswerList(Vec<Vec<u8>>, usize);

    impl Line for AnswerList {
        fn mark(&self) -> String {
            "srv: ".to_owned()
        }

        fn send(&mut self, _payload: &[u8]) -> Result<(), NoAnswer> {
            Ok(())
        }

        fn receive(&mut self, _wait: Duration) -> Result<Option<Vec<u8>>, NoAnswer> {
            self.1 += 1;
            Ok(Some(self.0[(self.1 - 1) % self.0.len()].clone()))
        }
    }

    #[derive(Default)]
    struct NoteLines(Vec<String>);

    impl Observer for NoteLines {
        fn event(&mut self, event: Event<'_>) {
            if let Event::Step(text) | Event::Note(text) = event {
                self.0.push(text.to_owned());
            }
        }
    }

    fn answered(answers: Vec<Answer>) -> (Result<Answer, NoAnswer>, Vec<String>) {
        let mut notes = NoteLines::default();
        let mut talker = AnswerList(answers.iter().map(wire::to_bytes).collect(), 0);
        let answer = answer(&mut talker, Duration::from_secs(600), &Cancel::default(), &mut notes);
        (answer, notes.0)
    }

    #[test]
    fn a_note_of_a_host_is_one_line_with_its_name() {
        let note = || "made\nerror: all is lost".to_owned();
        let closed = Answer::Closed { result: Ok(vec![note()]), kernel_log: Ok(String::new()) };
        let (answer, notes) = answered(vec![Answer::Step(note()), Answer::Note(note()), closed]);
        assert_eq!(notes, ["srv: made error: all is lost"; 2]);
        let Ok(Answer::Closed { result, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(result, Ok(vec!["made error: all is lost".to_owned()]));
        let (refused, _) = answered(vec![Answer::Refused(note())]);
        assert!(matches!(&refused, Err(no) if no.why() == "made error: all is lost"), "{refused:?}");
        let (answer, _) = answered(vec![Answer::Opened(Err(Problem::host(note(), note()).hint(note())))]);
        let Ok(Answer::Opened(Err(problem))) = answer else { panic!("{answer:?}") };
        assert_eq!(problem.to_string().lines().count(), 2, "{problem}");
    }

    #[test]
    fn a_host_that_says_too_much_is_given_up() {
        for text in ["x".repeat(100_000), String::new()] {
            let (answer, notes) = answered(vec![Answer::Note(text.clone()), Answer::Step(text)]);
            assert!(matches!(&answer, Err(no) if no.why() == "its notes exceed 4 MiB"), "{answer:?}");
            assert!(notes.iter().map(String::len).sum::<usize>() <= MOST_BYTES_SAID + 5 * notes.len());
        }
    }

    #[test]
    fn an_agent_that_is_late_is_said_to_be_where_it_is() {
        let limit = Duration::from_secs(312);
        assert_eq!(NoAnswer::TooLong(limit, None).why(), "no answer within 312 s");
        let step = ("starting critical-sections".to_owned(), Duration::from_secs(290));
        assert_eq!(
            NoAnswer::TooLong(limit, Some(step)).why(),
            "no answer within 312 s; for the last 290 s it was starting critical-sections"
        );
    }
}
