//! What a task on a CPU does, as the outermost frame of its stack: its own code, a system call, a page fault, an interrupt.

use crate::stacks::{Frame, FrameKind, Stack, StackProfile};
use std::collections::BTreeMap;

/// The module of such a frame, which is no function.
const MODULE: &str = "[on a CPU]";

/// Where the kernel is entered, by parts of the names of its functions (arch/x86/entry and arch/arm64/kernel/entry-common.c, 6.18).
const PAGE_FAULTS: [&str; 3] = ["exc_page_fault", "el0_da", "el0_ia"];
/// See [`PAGE_FAULTS`].
const INTERRUPTS: [&str; 5] = ["sysvec_", "common_interrupt", "el0_interrupt", "el0t_64_irq", "asm_exc_nmi"];
/// System calls have their names behind one of these (include/linux/syscalls.h and asm/syscall_wrapper.h).
const CALLS: [&str; 3] = ["__x64_sys_", "__arm64_sys_", "__se_sys_"];

/// Puts the state before each stack of CPU time; other profiles stay as they are.
pub fn add(profile: &mut StackProfile) {
    if profile.name != "on_cpu" {
        return;
    }
    let mut places: BTreeMap<String, u32> = BTreeMap::new();
    for stack in &mut profile.stacks {
        let place = *places.entry(state(stack, &profile.frames)).or_insert_with_key(|state| {
            let frame = Frame { function: state.clone(), module: Some(MODULE.to_owned()), kind: FrameKind::User };
            profile.frames.push(frame);
            profile.frames.len() as u32 - 1
        });
        stack.frames.insert(0, place);
    }
}

/// The samples of tasks under test by what they do, largest first.
pub fn samples(profiles: &[&StackProfile]) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for profile in profiles {
        for stack in profile.stacks.iter().filter(|stack| stack.role.is_some()) {
            *sums.entry(state(stack, &profile.frames)).or_default() += stack.weight;
        }
    }
    let mut sorted: Vec<(String, u64)> = sums.into_iter().collect();
    sorted.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    sorted
}

/// By the outermost function that says it: a page fault inside a system call is part of the call.
fn state(stack: &Stack, frames: &[Frame]) -> String {
    let mut is_kernel = false;
    let of_stack = stack.frames.iter().filter_map(|at| frames.get(*at as usize));
    for frame in of_stack.filter(|frame| frame.kind == FrameKind::Kernel) {
        is_kernel = true;
        let is_one = |of: &&str| frame.function.contains(*of);
        if let Some(call) = CALLS.iter().find_map(|before| frame.function.strip_prefix(before)) {
            return format!("system call {call}");
        } else if PAGE_FAULTS.iter().any(is_one) {
            return "page fault".to_owned();
        } else if INTERRUPTS.iter().any(is_one) {
            return "interrupt".to_owned();
        }
    }
    if is_kernel { "kernel".to_owned() } else { "own code".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_by_where_the_kernel_was_entered() {
        let frame = |(function, kind): &(&str, FrameKind)| Frame {
            function: (*function).to_owned(),
            module: None,
            kind: *kind,
        };
        let (user, kernel) = (FrameKind::User, FrameKind::Kernel);
        let frames = [
            ("main", user),
            ("entry_SYSCALL_64_after_hwframe", kernel),
            ("do_syscall_64", kernel),
            ("__x64_sys_read", kernel),
            ("asm_exc_page_fault", kernel),
            ("asm_sysvec_apic_timer_interrupt", kernel),
            ("worker_thread", kernel),
        ];
        let stack = |frames: &[u32]| Stack { task: "t".into(), role: None, frames: frames.to_vec(), weight: 1 };
        let stacks = [&[0][..], &[0, 1, 2, 3, 4], &[0, 4], &[0, 5], &[6], &[]].map(stack).to_vec();
        let of = |name: &str| {
            let frames = frames.iter().map(frame).collect();
            StackProfile { name: name.to_owned(), frames, stacks: stacks.clone(), ..StackProfile::default() }
        };
        let mut profile = of("on_cpu");
        add(&mut profile);
        let first = |stack: &Stack| profile.frames[stack.frames[0] as usize].function.as_str();
        let states: Vec<&str> = profile.stacks.iter().map(first).collect();
        assert_eq!(states, ["own code", "system call read", "page fault", "interrupt", "kernel", "own code"]);
        let mut other = of("off_cpu");
        add(&mut other);
        assert_eq!(other, of("off_cpu"));
    }
}
