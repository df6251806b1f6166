//! A real kernel in a virtual machine.

use crate::qemu;
use crate::session::{Readiness, Session, SessionRequest, Target};
use holdup_guest::arch::{self, Architecture};
use holdup_guest::machine;
use holdup_host::Host;
use holdup_model::guest::{Accelerator, GuestArch};
use holdup_model::{Availability, Meta, Observer, Plan, Problem, TrialSpec};

/// Trials in guests.
pub(crate) struct Qemu;

static META: Meta = Meta {
    id: "qemu",
    summary: "trials in a guest that boots the kernel that the plan names",
    docs: "A session boots a guest for each combination of what is chosen at boot (`kernel`, `boot.NAME`, \
           `postgres-server`), one after the other in random order, and ends it when its trials are done. The guest \
           lives in memory: an initramfs made of holdup itself, PostgreSQL and what both need, from this host's files. \
           holdup is the guest's first process and carries out the trials there as the target `local` does, so every \
           knob, workload and collector acts on the guest's kernel. With KVM the guest runs on this host's CPUs; \
           without it QEMU emulates them, and every rendering of the result says so: orderings and counts of events \
           may be compared then, times may not. Nothing is changed on this host, and no guest outlives holdup.",
    references: &[
        "QEMU: docs/system/invocation",
        "Linux: Documentation/driver-api/early-userspace/buffer-format.rst, the format of an initramfs",
    ],
};

fn emulates(arch: Result<&'static Architecture, Problem>) -> Availability {
    match arch.and_then(|arch| machine::probe(arch, Accelerator::Tcg)) {
        Ok(_) => Availability::Ready,
        Err(problem) => {
            Availability::Unavailable { reason: format!("{}: {}", problem.what, problem.why), remedy: problem.hint }
        }
    }
}

impl Target for Qemu {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn boots_guests(&self) -> bool {
        true
    }

    fn probe(&self, _host: &Host) -> Availability {
        // A plan may name another architecture than the host's.
        let is_there = |arch: &&'static Architecture| machine::probe(arch, Accelerator::Tcg).is_ok();
        emulates(match arch::ALL.iter().copied().find(is_there) {
            Some(arch) => Ok(arch),
            None => arch::of(GuestArch::Host),
        })
    }

    fn probe_for(&self, _host: &Host, plan: &Plan) -> Availability {
        emulates(qemu::architecture(plan))
    }

    /// An optional factor stays: only the guest could say whether it can be set, and it boots after the schedule is
    /// made.
    fn drop_unavailable_factors(&self, _host: &Host, plan: Plan) -> (Plan, Vec<String>) {
        (plan, Vec::new())
    }

    fn ready(&self, request: &SessionRequest<'_>, observer: &mut dyn Observer) -> Result<Readiness, Problem> {
        qemu::ready(request, observer)
    }

    fn preview(&self, request: &SessionRequest<'_>, _observer: &mut dyn Observer) -> Result<Readiness, Problem> {
        qemu::preview(request)
    }

    fn open<'a>(
        &self,
        request: &'a SessionRequest<'a>,
        at: &TrialSpec,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Session + 'a>, Problem> {
        qemu::open(request, at, observer).map(|session| Box::new(session) as Box<dyn Session + 'a>)
    }
}
