//! Sessions in guests: a real kernel in a virtual machine, with the agent as its first process.

mod boots;
mod guest;
mod nic;
mod prepare;

use crate::asking::{self, CHECK_TIMEOUT};
use crate::session::{Readiness, SessionRequest};
use boots::Choice;
use guest::Running;
use holdup_guest::arch::{self, Architecture};
use holdup_guest::machine::{self, Chosen};
use holdup_kernels::{Cache, Options, Spec};
use holdup_model::guest::Accelerator;
use holdup_model::preempt::DynamicModels;
use holdup_model::wire::{Answer, Checked, Order, Work};
use holdup_model::{Event, Guest, Observer, Plan, Problem, TrialSpec};
use prepare::Prepared;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(crate) use guest::QemuSession;

/// The longest that a guest may take to measure what things cost there.
const CALIBRATE_TIMEOUT: Duration = Duration::from_secs(600);

/// How often a guest that is lost before its agent says hello is booted again. An emulator with one thread per CPU now
/// and then crashes a kernel while that patches its own code.
const BOOT_ATTEMPTS: u32 = 3;

fn machine_of(plan: &Plan) -> Guest {
    plan.guest.clone().unwrap_or_default()
}

pub(crate) fn architecture(plan: &Plan) -> Result<&'static Architecture, Problem> {
    arch::of(plan.guest.as_ref().map(|guest| guest.arch).unwrap_or_default())
}

/// What the boots of a run are made of. Decided once, by `ready`: a kernel that another run fetches meanwhile, or KVM
/// that fails once, must not change what the arms of this run are.
#[derive(Default)]
pub struct BootCache {
    chosen: Mutex<Option<Chosen>>,
    prepared: Mutex<BTreeMap<Choice, Arc<Prepared>>>,
}

impl BootCache {
    fn chosen(&self) -> Result<Chosen, Problem> {
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        chosen.ok_or_else(|| Problem::internal("the guest's CPUs", "they were not chosen yet"))
    }

    fn prepared(&self, choice: &Choice) -> Result<Arc<Prepared>, Problem> {
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(choice).cloned();
        prepared.ok_or_else(|| Problem::internal(format!("the guest with {}", choice.label()), "it was not prepared"))
    }
}

/// Fetches what the boots need, boots each kind of guest once, and asks it whether it can do its part.
pub(crate) fn ready(request: &SessionRequest<'_>, observer: &mut dyn Observer) -> Result<Readiness, Problem> {
    check_together(request)?;
    let chosen = machine::choose(&machine_of(request.plan), architecture(request.plan)?)?;
    if machine_of(request.plan).peer {
        machine::check_link(&chosen)?;
    }
    *request.boot_cache.chosen.lock().unwrap_or_else(PoisonError::into_inner) = Some(chosen.clone());
    let mut readiness = Readiness {
        emulated: chosen.is_emulated().then(|| format!("emulated by QEMU {} (TCG)", chosen.qemu_version)),
        ..Readiness::default()
    };
    if let Some(why) = &chosen.why {
        readiness.notes.push(format!("guests are emulated: {why}"));
    }
    let mut prepared = Vec::new();
    for (choice, arms) in boots::choices(request.plan, request.schedule)? {
        let with = Arc::new(prepare::prepared(request, &choice, observer)?);
        request.boot_cache.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(choice.clone(), with.clone());
        prepared.push((choice, arms, with));
    }
    for (choice, arms, with) in prepared {
        let work = asking::work(request.plan, arms, with.postgres_bin(), with.postgres_builds.clone());
        let checked = check(request, &chosen, (&choice, &with), work, observer)?;
        readiness.add(checked, &format!("guest with {}", choice.label()));
    }
    Ok(readiness)
}

/// What can be said without a guest: whether there is a QEMU, which kernels are not cached, and what would be changed.
pub(crate) fn preview(request: &SessionRequest<'_>) -> Result<Readiness, Problem> {
    check_together(request)?;
    crate::servers::specs(request.plan)?;
    let arch = architecture(request.plan)?;
    machine::probe(arch, Accelerator::Tcg)?;
    arch.program(&machine_of(request.plan).program)?;
    let cache = Cache::open(&request.guests.cache.clone().unwrap_or_else(Cache::default_root))?;
    let options = Options { arch: arch.machine.to_owned(), ..Options::default() };
    let mut notes =
        vec!["the guests' kernels decide what else can be set; a run asks each before its first trial".to_owned()];
    for choice in boots::choices(request.plan, request.schedule)?.into_keys() {
        let spec = Spec::parse(&choice.kernel)?;
        let note = format!("kernel {spec} is not cached: a run fetches or builds it");
        if !notes.contains(&note) && cache.which_for(&spec, &options)?.is_none() {
            notes.push(note);
        }
    }
    Ok(Readiness { touches: crate::local::touches(request.plan), notes, ..Readiness::default() })
}

/// Boots the one kind of guest that a plan describes and has its agent measure what things cost there. Gives the machine file
/// and what the guest is, in words.
pub(crate) fn calibrate(
    request: &SessionRequest<'_>,
    observer: &mut dyn Observer,
) -> Result<(String, String), Problem> {
    check_together(request)?;
    let chosen = machine::choose(&machine_of(request.plan), architecture(request.plan)?)?;
    let mut choices = boots::choices(request.plan, request.schedule)?.into_keys();
    let (Some(choice), None) = (choices.next(), choices.next()) else {
        return Err(Problem::usage("the guest to measure", "the plan boots several kinds of guest")
            .hint("name one kernel, and nothing else that is chosen at boot"));
    };
    let with = prepare::prepared(request, &choice, observer)?;
    let hz = prepare::option(with.kernel.config.as_deref(), "CONFIG_HZ").and_then(|hz| hz.parse().ok());
    let mut running = booted(request, &chosen, &choice, &with, observer)?;
    let text = match running.ask(&Order::Calibrate { hz }, CALIBRATE_TIMEOUT, &request.cancel, observer) {
        Ok(Answer::Calibrated(result)) => result?,
        Ok(other) => return Err(asking::out_of_turn(&other)),
        Err(lost) => return Err(running.problem(lost, "while it measured")),
    };
    running.end();
    let about = match chosen.is_emulated() {
        true => format!("emulated by QEMU {} (TCG)", chosen.qemu_version),
        false => format!("on this host's CPUs by QEMU {} ({})", chosen.qemu_version, chosen.accel),
    };
    Ok((text, about))
}

/// Checks what guests that run at the same time need together.
fn check_together(request: &SessionRequest<'_>) -> Result<(), Problem> {
    let guest = machine_of(request.plan);
    let parallel = request.guests.parallel.max(1);
    if parallel > 1 && !guest.pin.is_empty() {
        return Err(Problem::usage("guest.pin with --parallel", "all guests would be pinned to the same CPUs")
            .hint("leave one of the two out"));
    }
    let memory_bytes = guest.memory_bytes.saturating_mul(u64::from(parallel));
    machine::check_memory(request.host, &Guest { memory_bytes, ..guest })
}

/// Boots one guest to ask it.
fn check(
    request: &SessionRequest<'_>,
    chosen: &Chosen,
    (choice, with): (&Choice, &Prepared),
    work: Work,
    observer: &mut dyn Observer,
) -> Result<Checked, Problem> {
    let inside = |p: Problem| Problem { what: format!("{} in a guest with {}", p.what, choice.label()), ..p };
    observer.event(Event::Step(&format!("asking a guest with {} what it can do", choice.label())));
    let mut running = booted(request, chosen, choice, with, observer)?;
    let answer = running.ask(&Order::Check(Box::new(work)), CHECK_TIMEOUT, &request.cancel, observer);
    let checked = match answer {
        Ok(Answer::Checked(checked)) => checked.map_err(|p| inside(running.with_peer(p)))?,
        Ok(other) => return Err(asking::out_of_turn(&other)),
        Err(lost) => return Err(running.problem(lost, "while it was asked what it can do")),
    };
    running.end();
    took_preempt(choice, &machine_of(request.plan).append, checked.preempt.as_deref())?;
    Ok(*checked)
}

/// Whether the model that the command line asks for is in force. A kernel that does not have it says "unsupported
/// mode" in its log and boots with its default (`setup_preempt_mode()`, kernel/sched/core.c).
fn took_preempt(choice: &Choice, append: &str, now: Option<&str>) -> Result<(), Problem> {
    // What is appended stands last on the line, and the last one counts.
    let appended = append.split_whitespace().filter_map(|word| word.strip_prefix("preempt=")).next_back();
    let of_factor = choice.parameters.iter().find(|(name, _)| name == "preempt").map(|(_, value)| value.as_str());
    let Some(asked) = appended.or(of_factor) else { return Ok(()) };
    let what = format!("preempt={asked} at the boot of kernel {}", choice.kernel);
    let Some(now) = now else {
        return Err(Problem::host(what, "the guest does not report its preemption model")
            .hint("the kernel needs CONFIG_PREEMPT_DYNAMIC and CONFIG_DEBUG_FS"));
    };
    let Some(models) = DynamicModels::parse(now) else {
        return Err(Problem::host(what, format!("`{now}` in debugfs' sched/preempt is no list of models")));
    };
    if models.active == asked {
        return Ok(());
    }
    let offered = models.offered.join(", ");
    Err(Problem::host(what, format!("the kernel does not take it: its model is {}", models.active))
        .hint(format!("this kernel offers {offered}; leave the combination out with [[exclude]]")))
}

/// A guest whose agent has said hello.
fn booted(
    request: &SessionRequest<'_>,
    chosen: &Chosen,
    choice: &Choice,
    with: &Prepared,
    observer: &mut dyn Observer,
) -> Result<Running, Problem> {
    let guest = machine_of(request.plan);
    let mut attempt = 1;
    loop {
        observer.event(Event::Step(&format!("booting {}", choice.label())));
        let mut running = Running::start(&guest, chosen, choice, with)?;
        match running.hello(Duration::from_nanos(guest.boot_timeout_ns), &request.cancel) {
            Ok(hello) => {
                for note in &hello.notes {
                    observer.event(Event::Note(&format!("guest with {}: {note}", choice.label())));
                }
                return Ok(running);
            }
            Err(lost) if attempt < BOOT_ATTEMPTS && !request.cancel.is_cancelled() => {
                attempt += 1;
                let problem = running.problem(lost, "while it booted");
                observer.event(Event::Note(&format!("{} is booted again: {}", problem.what, problem.why)));
            }
            Err(lost) => return Err(running.problem(lost, "while it booted")),
        }
    }
}

/// Boots the guest of a trial and opens a session in it.
pub(crate) fn open<'a>(
    request: &'a SessionRequest<'a>,
    at: &TrialSpec,
    observer: &mut dyn Observer,
) -> Result<QemuSession<'a>, Problem> {
    let chosen = request.boot_cache.chosen()?;
    let arms = asking::arms_of(request.schedule, at.boot);
    let first = arms.first().ok_or_else(|| Problem::internal(format!("boot {}", at.boot), "it has no arms"))?;
    let choice = Choice::of(request.plan, first)?;
    let with = request.boot_cache.prepared(&choice)?;
    let work = asking::work(request.plan, arms, with.postgres_bin(), with.postgres_builds.clone());
    let running = booted(request, &chosen, &choice, &with, observer)?;
    QemuSession::open(request, running, work, observer)
}
