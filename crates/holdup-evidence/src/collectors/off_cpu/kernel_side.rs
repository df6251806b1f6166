//! The kernel's side of a sampled stack, without the sampler's own frames and without a task that was only interrupted.

use holdup_stacks::KernelSymbols;

/// Frames of the program, its caller and the tracepoint, at most.
const OWN_FRAMES: usize = 10;

/// The first frame that is not the sampler's: at a function of interest, or behind the frames of a tracepoint's
/// programs.
fn begin(kernel: &KernelSymbols, stack: &[u64], of_interest: impl Fn(&str) -> bool) -> usize {
    let name = |address: &u64| kernel.find(*address).map_or("", |(name, _)| name);
    let head = &stack[..stack.len().min(OWN_FRAMES)];
    if let Some(place) = head.iter().position(|address| of_interest(name(address))) {
        return place;
    }
    let is_own =
        |name: &str| name.starts_with("bpf_") || name.contains("bpf_trace") || name.starts_with("__traceiter_");
    head.iter().rposition(|address| is_own(name(address))).map_or(0, |place| place + 1)
}

/// Return addresses; the first becomes the address of an instruction.
fn from(stack: &[u64], begin: usize) -> Vec<u64> {
    let mut kept = stack.get(begin..).unwrap_or_default().to_vec();
    if let Some(first) = kept.first_mut().filter(|_| begin > 0) {
        *first = first.saturating_sub(1);
    }
    kept
}

/// How a task came to leave its CPU: from `schedule` on.
pub(super) fn of_sleeper(kernel: &KernelSymbols, stack: &[u64]) -> Vec<u64> {
    let place = begin(kernel, stack, |name| name == "__schedule");
    let is_there = stack.get(place).and_then(|address| kernel.find(*address)).is_some_and(|(n, _)| n == "__schedule");
    from(stack, if is_there && place + 1 < stack.len() { place + 1 } else { place })
}

/// How a task was woken; and whether by an interrupt: then the frames of the interrupted task are left out.
pub(super) fn of_waker(kernel: &KernelSymbols, stack: &[u64]) -> (Vec<u64>, bool) {
    let mut kept = from(stack, begin(kernel, stack, |name| name == "try_to_wake_up"));
    let is_entry = |address: &u64| kernel.find(address.saturating_sub(1)).is_some_and(|(name, _)| is_interrupt(name));
    match kept.iter().position(is_entry) {
        Some(place) => {
            kept.truncate(place + 1);
            (kept, true)
        }
        None => (kept, false),
    }
}

/// Entries of interrupts of devices, timers and other CPUs (arch/x86/include/asm/idtentry.h, entry_64.S;
/// arch/arm64/kernel/entry.S, entry-common.c); exceptions are the task's own.
fn is_interrupt(name: &str) -> bool {
    name.starts_with("asm_sysvec_")
        || matches!(name, "asm_common_interrupt" | "asm_spurious_interrupt")
        || matches!(name, "el0_interrupt" | "el1_interrupt" | "el0t_64_irq_handler" | "el1h_64_irq_handler")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "1000 t bpf_prog_1_is_waking\n1100 t bpf_trace_run1\n1200 t __traceiter_sched_waking\n\
                            1300 t try_to_wake_up\n1400 t pipe_write\n1500 t asm_sysvec_apic_timer_interrupt\n\
                            1600 t __schedule\n1700 t schedule\n1800 t do_syscall_64\n1900 t hrtimer_wakeup\n\
                            1a00 t el1_interrupt\n1b00 t el1h_64_irq_handler\n1c00 t el1h_64_irq\n";

    #[test]
    fn the_frames_of_the_sampler_are_left_out() {
        let kernel = KernelSymbols::parse(KALLSYMS);
        assert_eq!(of_sleeper(&kernel, &[0x1010, 0x1110, 0x1210, 0x1610, 0x1710, 0x1810]), [0x170f, 0x1810]);
        let other = [0x1010, 0x1110, 0x1710, 0x1810];
        assert_eq!(of_sleeper(&kernel, &other), [0x170f, 0x1810], "another kernel may have other functions");
        assert_eq!(of_sleeper(&KernelSymbols::default(), &other), other, "nothing is known");
        assert_eq!(of_sleeper(&kernel, &[]), [0; 0]);
    }

    #[test]
    fn an_interrupted_task_is_no_waker() {
        let kernel = KernelSymbols::parse(KALLSYMS);
        let by_task = [0x1010, 0x1110, 0x1310, 0x1410, 0x1810];
        assert_eq!(of_waker(&kernel, &by_task), (vec![0x130f, 0x1410, 0x1810], false));
        let by_timer = [0x1010, 0x1110, 0x1310, 0x1910, 0x1510, 0x1810];
        assert_eq!(of_waker(&kernel, &by_timer), (vec![0x130f, 0x1910, 0x1510], true));
        let on_arm64 = [0x1010, 0x1110, 0x1310, 0x1910, 0x1a10, 0x1b10, 0x1c10];
        assert_eq!(of_waker(&kernel, &on_arm64), (vec![0x130f, 0x1910, 0x1a10], true));
    }
}
