//! Call stacks as lines of text: the heaviest first, innermost functions first.

use holdup_model::stacks::{Frame, FrameKind, Stack};
use holdup_model::{BundleData, Collected, StackProfile, Trial};
use std::collections::BTreeMap;

/// Functions of a line at most.
const FUNCTIONS: usize = 6;
/// The module of a frame that is no function: what PostgreSQL says that the task waits for.
const WAIT_EVENT: &str = "[wait event]";

/// The tid of a stack that is of a single task.
pub(crate) fn tid(stack: &Stack) -> Option<u32> {
    stack.task.rsplit_once('-')?.1.parse().ok()
}

/// The profiles with this name in a window: `on_cpu`, `off_cpu`.
pub(crate) fn profiles<'a>(trial: &'a Trial, name: &'static str) -> impl Iterator<Item = &'a StackProfile> + use<'a> {
    let of = |c: &&Collected| matches!(c.collector.as_str(), "cpu-profile" | "off-cpu");
    trial.evidence.iter().filter(of).flat_map(|c| &c.stacks).filter(move |p| p.name == name)
}

/// The stacks of a profile that are wanted, as lines with their share of all of these. The window comes with each stack, by its
/// place.
pub(crate) fn lines(
    bundle: &BundleData,
    profile: &'static str,
    most: usize,
    is_wanted: impl Fn(usize, &StackProfile, &Stack) -> bool,
) -> Vec<String> {
    let mut weights: BTreeMap<String, u64> = BTreeMap::new();
    for (at, trial) in bundle.trials.iter().enumerate() {
        for profile in profiles(trial, profile) {
            let wanted = profile.stacks.iter().filter(|s| s.role.is_some() && is_wanted(at, profile, s));
            wanted.for_each(|stack| *weights.entry(line(profile, stack)).or_insert(0) += stack.weight);
        }
    }
    let all: u64 = weights.values().sum();
    let mut weights: Vec<(String, u64)> = weights.into_iter().collect();
    weights.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let share = |weight: u64| 100.0 * weight as f64 / all.max(1) as f64;
    weights.into_iter().take(most).map(|(line, weight)| format!("{:5.1} %  {line}", share(weight))).collect()
}

/// `Lock:transactionid: WaitLatch < ProcSleep < LockAcquire`. Of the kernel's functions the one that was called last, and all where
/// there are no others: how a system call leads to a switch is the same for all.
fn line(profile: &StackProfile, stack: &Stack) -> String {
    let frames = || stack.frames.iter().rev().filter_map(|at| profile.frames.get(*at as usize));
    let is_event = |frame: &&Frame| frame.module.as_deref() == Some(WAIT_EVENT);
    let is_kernel = |frame: &&Frame| frame.kind == FrameKind::Kernel;
    let has_user = frames().any(|frame| !is_kernel(&frame) && !is_event(&frame));
    let of_kernel = frames().filter(is_kernel).take(if has_user { 1 } else { FUNCTIONS });
    let of_kernel = of_kernel.filter(|_| profile.name == "on_cpu" || !has_user);
    let of_kernel = of_kernel.map(|frame| format!("[{}]", frame.function));
    let of_user = frames().filter(|frame| !is_kernel(frame) && !is_event(frame)).map(|frame| frame.function.clone());
    let mut names: Vec<String> = of_kernel.chain(of_user).collect();
    if names.len() > FUNCTIONS {
        names.truncate(FUNCTIONS - 1);
        names.push("…".to_owned());
    }
    let event = frames().find(is_event).map_or_else(String::new, |frame| format!("{}: ", frame.function));
    format!("{event}{}", names.join(" < "))
}
