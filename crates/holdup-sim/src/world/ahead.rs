//! Two stretches as one event: a computation, or the rest of a call, and the system call that is known to follow it.
//!
//! Where the one ends and the other begins, a task looks at the bits that ask it to make room, and nothing else that
//! others can see happens. As long as neither bit is set, there is nothing to see, so no event is needed there. What
//! interrupts the task finds the stretch in which it then is; who sets a bit brings the event back. Nothing comes out
//! otherwise than with an event for each stretch.

use super::{IDLE, Inside, Mode, SLOTS, Segment, Then, WORK, World};
use crate::program::Op;

/// The most operations that are looked at.
const MOST_AHEAD: u32 = 4;

impl World {
    /// The running task begins a segment: whether a call is known to follow.
    pub(super) fn looks_ahead(&mut self, cpu: u32, task: u32, segment: &Segment) {
        let is_plain = match segment.mode {
            Mode::User => segment.then == Then::Next,
            Mode::Kernel => segment.then == Then::ToUser && segment.inside == Inside::On,
            Mode::Spin => false,
        };
        let c = &mut self.cpus[cpu as usize];
        debug_assert_eq!(c.ahead_ns, 0, "the last call was entered");
        let t = &self.tasks[task as usize];
        if !is_plain || c.need || c.lazy || t.asks || t.granted || t.is_kernel {
            return;
        }
        let costs = &self.machine.costs;
        let mut pc = t.pc;
        for _ in 0..MOST_AHEAD {
            match self.code[pc as usize] {
                Op::Jump(to) => pc = to,
                Op::IfTag { tag, to } => pc = if t.tag == tag { to } else { pc + 1 },
                Op::Send { .. } => {
                    (c.ahead_pc, c.ahead_ns) = (pc, costs.syscall_ns + costs.send_ns);
                    return;
                }
                Op::Receive(_) => {
                    (c.ahead_pc, c.ahead_ns) = (pc, costs.syscall_ns + costs.receive_ns);
                    return;
                }
                _ => return,
            }
        }
    }

    /// The running task is in the call that was known to follow, if its segment is over. Events of the same time come in
    /// the order of their slots, the end of the segment among them.
    pub(super) fn enters_call(&mut self, cpu: u32) {
        let c = self.cpus[cpu as usize];
        let left = self.tasks[c.current as usize].segment.left;
        let end = (c.busy_from + left, cpu as usize * SLOTS + WORK);
        if (self.now, self.slot) <= end {
            return;
        }
        if left > 0 {
            self.passes(cpu, left);
        }
        self.cpus[cpu as usize].ahead_ns = 0;
        let then = if matches!(self.code[c.ahead_pc as usize], Op::Send { .. }) { Then::Sends } else { Then::Receives };
        let t = &mut self.tasks[c.current as usize];
        debug_assert_eq!(t.extra_ns, 0, "it was part of the segment");
        t.pc = c.ahead_pc + 1;
        t.segment = World::kernel(c.ahead_ns, Inside::On, then);
    }

    /// A CPU has been asked to make room: its task looks at that where its segment ends.
    pub(super) fn looks_again(&mut self, cpu: u32) {
        let c = &self.cpus[cpu as usize];
        if c.ahead_ns == 0 || c.current == IDLE {
            return;
        }
        self.enters_call(cpu);
        if std::mem::take(&mut self.cpus[cpu as usize].ahead_ns) > 0 {
            self.arm(cpu);
        }
    }
}
