//! Tasks that wait for a lock whose holder is off the CPU.

use super::{Context, Kind, advice, grouped, judge, share_in_words, split};
use crate::watched::{Watched, after_colon, before_colon};
use crate::words;
use holdup_model::Meta;
use holdup_model::explanation::{Advice, Cause, Missing};
use holdup_model::outcome::FindingVerdict;
use holdup_stats::{CONFIDENCE, residual, share_of_sums};

pub static META: Meta = Meta {
    id: "preempted-holder",
    summary: "CPU time spent waiting for a lock whose holder is off the CPU",
    docs: "Tasks that spin for a lock use a CPU for nothing while its holder does not run. The collector critical-sections \
           knows from the instruction pointer of each switched-out task whether it held a lock, and counts the samples in \
           which others waited for it meanwhile. 1 % of the watched tasks' CPU time and more is named. Where holders \
           were switched out says what can help: at the user boundary (return to user mode: every preemption model \
           does that, and only there a slice extension can be granted), inside the kernel (in a system call or a page \
           fault: under the models full and lazy, and no slice extension reaches it). Waiters that sleep are not \
           counted: they use no CPU.",
    references: &[
        "kernel/entry/common.c:exit_to_user_mode_loop (v7.2): both reschedule flags lead to schedule() there in all models",
        "include/trace/events/sched.h:sched_switch, __trace_sched_switch_state (v6.18): R and R+",
    ],
};

static KIND: Kind =
    Kind { meta: &META, name: "lock-holder preemption", of: "the watched tasks' CPU time", minimum: 0.01 };

const SECTIONS: &str = "critical-sections";
const LOST: &str = "waiter_behind_off_cpu_holder_s";
const UNKNOWN: &str = "waiter_not_known_s";
const OFF: &str = "holder_off_cpu_s";

/// More than this part of the switch-outs of holders makes a context worth separate advice.
const NOTABLE: f64 = 0.2;

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    let pieces = watched.pieces(|trial| {
        mapped(watched, trial)?;
        // Switch-outs were classified, so no item means that no task waited behind a holder off the CPU.
        watched.required(trial, SECTIONS, "switch_outs_classified", |_| true)?;
        Ok((watched.total(trial, SECTIONS, LOST)?, watched.cpu_s(trial)?))
    });
    let mut cause = judge(&KIND, watched, pieces);
    let unknown = watched.pieces(|trial| Ok((watched.total(trial, SECTIONS, UNKNOWN)?, watched.cpu_s(trial)?)));
    let (unknown_s, cpu_s) = unknown.map(|pieces| pieces.sums()).unwrap_or_default();
    if cause.verdict == FindingVerdict::Refuted && unknown_s > KIND.minimum * cpu_s {
        cause.verdict = FindingVerdict::Undecided;
        cause.sentence = format!(
            "Lock-holder preemption: the watched tasks spend {} of their CPU time waiting for a lock whose holder may be off \
             the CPU; which lock it is does not show.",
            words::percent(unknown_s / cpu_s)
        );
    }
    cause.evidence = watched.present(&[
        (SECTIONS, LOST),
        (SECTIONS, UNKNOWN),
        (SECTIONS, OFF),
        (SECTIONS, "holder_switched_out"),
        (SECTIONS, "holder_preempted_by_cause"),
        (SECTIONS, "holder_preempted_by"),
        (SECTIONS, "section_residual_ns"),
        ("switches", "on_cpu_s"),
        ("cpu", "cpu_used"),
    ]);
    cause.details.extend(details(watched));
    if cause.verdict != FindingVerdict::Refuted && cause.share.is_some() {
        cause.advice = advices(watched);
    }
    if let (Some(share), FindingVerdict::Supported) = (&cause.share, cause.verdict) {
        // The section that is waited for, which need not be the one whose holders are off for longest.
        let waited_for = grouped(&watched.by_label(SECTIONS, LOST), |label| label);
        let waited_for = waited_for.first().map_or("", |(name, _)| name);
        let section = if waited_for.is_empty() { String::new() } else { format!(", most in {waited_for}") };
        let mut off = watched.by_label(SECTIONS, OFF);
        off.retain(|(label, _)| before_colon(label) == waited_for);
        let asleep = part(&grouped(&off, after_colon), "sleeping") > 0.5;
        let how = if asleep { "sleeps" } else { "is switched out" };
        let by = preempters(watched).into_iter().next().filter(|_| !asleep);
        let by = by.map(|(by, _)| format!(", most often by {by}")).unwrap_or_default();
        cause.sentence = format!(
            "Lock-holder preemption: the watched tasks spend {} of their CPU time waiting for a lock whose holder {how}{section}{by}.",
            share_in_words(share)
        );
    }
    cause
}

/// Missing when no section of the watched programs is known.
pub(super) fn mapped(watched: &Watched<'_>, trial: &holdup_model::Trial) -> Result<(), Missing> {
    let mapped = watched.required(trial, SECTIONS, "sections_mapped", |_| true)?;
    if mapped > 0.0 {
        return Ok(());
    }
    Err(Missing {
        collector: SECTIONS.to_owned(),
        why: "no critical section of the watched programs is known".to_owned(),
        remedy: "--section FUNCTION names one".to_owned(),
    })
}

/// The part that one name has of all.
fn part(parts: &[(String, f64)], name: &str) -> f64 {
    let all: f64 = parts.iter().map(|(_, n)| n).sum();
    let own: f64 = parts.iter().filter(|(label, _)| label == name).map(|(_, n)| n).sum();
    if all > 0.0 { own / all } else { 0.0 }
}

fn details(watched: &Watched<'_>) -> Vec<String> {
    let mut details = Vec::new();
    let off = watched.by_label(SECTIONS, OFF);
    let ratio = watched.pieces(|t| Ok((watched.total(t, SECTIONS, LOST)?, watched.total(t, SECTIONS, OFF)?)));
    if let Some(Ok(e)) = ratio.ok().map(|p| share_of_sums(&p.pieces, CONFIDENCE)) {
        details.push(format!(
            "Each second that a holder was off the CPU cost {} s of waiting ({} to {}).",
            words::number(e.value),
            words::number(e.low),
            words::number(e.high)
        ));
    }
    let outs = watched.by_label(SECTIONS, "holder_switched_out");
    let number: f64 = outs.iter().map(|(_, n)| n).sum();
    if let Some(contexts) = split(&grouped(&outs, after_colon), 4) {
        details.push(format!("Holders were switched out {} times: {contexts}.", words::number(number)));
    }
    if let Some(contexts) = split(&grouped(&off, after_colon), 4) {
        let seconds: f64 = off.iter().map(|(_, s)| s).sum();
        details.push(format!("They were off the CPU for {} s: {contexts}.", words::number(seconds)));
    }
    let causes = grouped(&watched.by_label(SECTIONS, "holder_preempted_by_cause"), after_colon);
    if let Some(causes) = split(&causes, 4) {
        details.push(format!("Causes of these preemptions: {causes}."));
    }
    if let Some(who) = split(&preempters(watched), 3) {
        details.push(format!("Tasks that ran instead: {who}."));
    }
    if watched
        .of_collector("switches")
        .any(|c| c.items.iter().any(|i| i.name == "causes_inferred" && i.value.value().is_some_and(|v| v > 0.0)))
    {
        details.push(
            "The causes of preemption are inferred: this kernel does not report which task requested the switch."
                .to_owned(),
        );
    }
    details.extend(lengths(watched, &off));
    details
}

/// The tasks that took the CPU from holders, most often first.
fn preempters(watched: &Watched<'_>) -> Vec<(String, f64)> {
    let who = watched.by_label(SECTIONS, "holder_preempted_by");
    grouped(&who, |label| label.rsplit_once(" < ").map_or(label, |(_, by)| by))
}

/// How long the sections are that holders were interrupted in.
fn lengths(watched: &Watched<'_>, off: &[(String, f64)]) -> Vec<String> {
    let sections = grouped(off, before_colon);
    let lengths = sections.iter().take(3).filter_map(|(section, _)| {
        let residuals = watched.histogram(SECTIONS, "section_residual_ns", |label| label == section);
        let e = residual::mean_length(&residuals, None, 1).ok()?;
        let us = |ns: f64| words::number(ns / 1e3);
        // Of what is interrupted at any moment half is left, on average (Cox, Renewal Theory, 5.4).
        let hit = 2.0 * residuals.mean_ns()?;
        // Where all are of one length the two agree, as well as they are known.
        let longer = match hit > e.high {
            true => format!(" Interrupted ones are {} us long on average: long sections are interrupted more often.", us(hit)),
            false => String::new(),
        };
        Some(format!(
            "{section} is held for {} us on average ({} to {}), from what was left of it when it was interrupted.{longer}",
            us(e.value),
            us(e.low),
            us(e.high)
        ))
    });
    lengths.collect()
}

fn advices(watched: &Watched<'_>) -> Vec<Advice> {
    let outs = grouped(&watched.by_label(SECTIONS, "holder_switched_out"), after_colon);
    let causes = grouped(&watched.by_label(SECTIONS, "holder_preempted_by_cause"), after_colon);
    let in_fault = part(&outs, "in a page fault");
    let in_kernel = in_fault + part(&outs, "in a system call");
    let at_boundary = part(&outs, "user boundary");
    let mut all = Vec::new();
    if in_fault > NOTABLE {
        all.push(advice(
            "huge pages for the shared memory under the lock",
            &format!(
                "at most the {} of switch-outs that hit a holder in a page fault: one fault maps 2 MB instead of 4 kB; \
                 preemption elsewhere stays",
                words::percent(in_fault)
            ),
            "PostgreSQL: huge_pages = on, with vm.nr_hugepages for all of shared_buffers; a restart",
            "holdup run pgbench --vary postgres.huge_pages=off,on",
            "set huge_pages back and restart; vm.nr_hugepages = 0 gives the memory back",
        ));
        all.push(advice(
            "a warm pool: every process touches the memory before the load begins",
            "faults of first touch only, and for as long as the processes live: page tables are per process",
            "long-lived connections (a pooler); a freelist that is used up takes PostgreSQL's StrategyGetBuffer out of the lock",
            "holdup run pgbench --vary postgres.pool=warm,cold",
            "nothing stays changed",
        ));
    }
    if in_kernel > NOTABLE {
        all.push(advice(
            "preemption model none (or voluntary)",
            "no switch inside the kernel but at cond_resched(); those at the user boundary stay as they are",
            "kernels up to 6.19 that offer it (preempt=none); from 7.0 on x86, arm64, s390, powerpc, riscv and loongarch \
             have full and lazy only, unless patched",
            "holdup run PLAN --vary preempt=none,lazy,full",
            "write the model back to /sys/kernel/debug/sched/preempt, or boot without preempt=",
        ));
    }
    if at_boundary > NOTABLE {
        all.push(slice_extension(at_boundary));
    }
    if part(&causes, "wake-up") > NOTABLE {
        all.push(advice(
            "sched-policy batch for the watched tasks",
            "a task of SCHED_BATCH does not preempt others when it wakes up; published effects on databases have both signs",
            "",
            "holdup run PLAN --vary sched-policy=other,batch",
            "chrt --other --pid 0 PID",
        ));
    }
    if part(&causes, "slice end") > NOTABLE {
        all.push(advice(
            "a longer slice",
            "fewer ends of slices fall into a section; others wait longer for the CPU",
            "debugfs without lockdown; from 6.12 on also for single tasks (sched_attr.sched_runtime)",
            "holdup run PLAN --vary base-slice=3ms,12ms",
            "write the old value back to /sys/kernel/debug/sched/base_slice_ns",
        ));
    }
    all.push(advice(
        "no more running tasks than CPUs: fewer connections behind a pooler, or other work kept off with taskset",
        "a holder is only switched out when another task wants its CPU",
        "",
        "holdup run pgbench --clients 8,64",
        "set the pool's size or the affinity back",
    ));
    all
}

fn slice_extension(at_boundary: f64) -> Advice {
    advice(
        "the rseq time slice extension around the section",
        &format!(
            "at most the {} at the user boundary, for sections of some microseconds (5 us by default, 50 us at most); it \
             does nothing for a holder that is preempted inside the kernel or in a page fault. Gains are published for \
             oversubscribed locks only; with few threads it costs",
            words::percent(at_boundary)
        ),
        "7.0 or later, built with CONFIG_RSEQ_SLICE_EXTENSION (Debian's kernels are not; arm64 and powerpc cannot), glibc \
         2.41 or later, and a program that requests it",
        "",
        "the program stops requesting it; rseq_slice_ext=off at boot",
    )
}
