//! The whole binary, scanned once: calls, jumps between functions, and atomic operations.

use crate::arch::{Flow, Instruction};
use crate::image::Image;
use crate::shipped;
use std::collections::{BTreeMap, BTreeSet};

/// A binary and what a scan of its code found.
pub(crate) struct Program<'a> {
    pub(crate) image: Image<'a>,
    /// Called address, calling instruction; sorted.
    calls: Vec<(u64, u64)>,
    /// Fragment that a jump leads to from another, and that other.
    jumps: BTreeSet<(usize, usize)>,
    /// Fragments with an atomic operation on memory that may take a lock.
    pub(crate) atomic: BTreeSet<usize>,
    /// Fragments that wait with the instruction `pause`, or call a library's function that takes a spin lock.
    pub(crate) spinning: BTreeSet<usize>,
    /// Whether a function ever returns, as far as asked.
    pub(crate) returns: BTreeMap<u64, bool>,
    /// Stubs through which functions of other objects are called, by address.
    stubs: BTreeMap<u64, String>,
}

impl<'a> Program<'a> {
    /// Scans the code of an image.
    pub(crate) fn scan(mut image: Image<'a>) -> Self {
        let (mut calls, mut jumps) = (Vec::new(), BTreeSet::new());
        let (mut atomic, mut spinning) = (BTreeSet::new(), BTreeSet::new());
        for (number, fragment) in image.fragments.iter().enumerate() {
            for instruction in image.instructions(fragment.begin).into_iter().flatten() {
                match instruction.flow {
                    Flow::Call(to) => calls.push((to, instruction.ip)),
                    Flow::Jump(to) | Flow::Branch(to) => {
                        if image.arch.may_acquire(&instruction) {
                            atomic.insert(number);
                        }
                        if !(fragment.begin..fragment.end).contains(&to)
                            && let Some(other) = image.fragment(to)
                        {
                            jumps.insert((other, number));
                        }
                    }
                    Flow::Next if image.arch.may_acquire(&instruction) => {
                        atomic.insert(number);
                    }
                    Flow::Next if image.arch.is_pause(&instruction) => {
                        spinning.insert(number);
                    }
                    Flow::CallSlot(slot)
                        if image.slots.get(&slot).is_some_and(|name| shipped::spin_lock(name).is_some()) =>
                    {
                        spinning.insert(number);
                    }
                    _ => {}
                }
            }
        }
        calls.sort_unstable();
        image.find_helpers(calls.iter().map(|call| call.0));
        let of_helpers = calls.iter().filter(|call| image.helpers.contains_key(&call.0));
        for at in of_helpers.map(|call| call.1) {
            let may_acquire = image.instruction(at).is_some_and(|call| image.arch.may_acquire(&call));
            atomic.extend(image.fragment(at).filter(|_| may_acquire));
        }
        let (returns, stubs) = (BTreeMap::new(), BTreeMap::new());
        let mut program = Program { image, calls, jumps, atomic, spinning, returns, stubs };
        program.find_stubs();
        let locks = program.stubs.iter().filter(|(_, name)| shipped::spin_lock(name).is_some());
        let callers = locks.flat_map(|(stub, _)| program.callers(*stub));
        let spinning: Vec<usize> = callers.filter_map(|at| program.image.fragment(at)).collect();
        program.spinning.extend(spinning);
        program
    }

    fn find_stubs(&mut self) {
        let mut targets: Vec<u64> = self.calls.iter().map(|call| call.0).collect();
        targets.dedup();
        for target in targets {
            if let Some(name) = self.jump_through_slot(target) {
                let name = name.to_owned();
                self.stubs.insert(target, name);
            }
        }
    }

    /// The imported function that a stub of the procedure linkage table jumps to.
    fn jump_through_slot(&self, at: u64) -> Option<&str> {
        let slot = self.image.arch.stub(self.image.code(at)?, at)?;
        self.image.slots.get(&slot).map(String::as_str)
    }

    /// The imported function that a call or a jump at the end of a function goes to, by its name.
    pub(crate) fn import(&self, call: &Instruction) -> Option<&str> {
        if let Flow::CallSlot(slot) | Flow::JumpSlot(slot) = call.flow {
            return self.image.slots.get(&slot).map(String::as_str);
        }
        let target = call.target()?;
        let known = self.stubs.get(&target).map(String::as_str);
        // A stub that is only jumped to is not among those that are called.
        known.or_else(|| (call.flow == Flow::Jump(target)).then(|| self.jump_through_slot(target)).flatten())
    }

    /// The function of a library that a call takes a spin lock by.
    pub(crate) fn spin_lock(&self, call: &Instruction) -> Option<&'static str> {
        call.is_call().then(|| self.import(call)).flatten().and_then(shipped::spin_lock)
    }

    /// The function of this binary that an instruction calls or jumps to.
    pub(crate) fn callee(&self, instruction: &Instruction) -> Option<u64> {
        instruction.target().filter(|at| !self.stubs.contains_key(at) && self.image.fragment(*at).is_some())
    }

    /// Calls of an address, by the address of the calling instruction.
    pub(crate) fn callers(&self, of: u64) -> impl Iterator<Item = u64> {
        let first = self.calls.partition_point(|call| call.0 < of);
        self.calls[first..].iter().take_while(move |call| call.0 == of).map(|call| call.1)
    }

    /// True if an address is called from anywhere.
    pub(crate) fn is_called(&self, at: u64) -> bool {
        self.callers(at).next().is_some()
    }

    /// True if a jump to an address of another fragment stays within the same function: a part that was moved away has no
    /// name, is not called, and is not entered with a fresh stack frame.
    pub(crate) fn is_part(&self, at: u64) -> bool {
        let Some(fragment) = self.image.fragment_at(at) else { return false };
        let named = fragment.name.as_deref().is_some_and(|name| !name.contains(".cold") && !name.contains(".part"));
        if fragment.begin != at {
            return !named;
        }
        !named && !self.is_called(at)
    }

    /// The functions that a fragment belongs to: itself, or those that jump into it.
    pub(crate) fn owners(&self, fragment: usize) -> Vec<u64> {
        let Some(this) = self.image.fragments.get(fragment) else { return Vec::new() };
        let from: Vec<usize> = self.jumps.range((fragment, 0)..=(fragment, usize::MAX)).map(|jump| jump.1).collect();
        let moved = !self.is_called(this.begin)
            && this.name.as_deref().is_none_or(|name| name.contains(".cold") || name.contains(".part"));
        if moved && !from.is_empty() {
            from.into_iter().filter_map(|other| Some(self.image.fragments.get(other)?.begin)).collect()
        } else {
            vec![this.begin]
        }
    }

    /// A function's name: its symbol, or its address.
    pub(crate) fn name(&self, function: u64) -> String {
        let name = self.image.fragment_at(function).and_then(|f| f.name.clone());
        name.unwrap_or_else(|| format!("function {function:#x}"))
    }

    /// True if a call never returns, by names.
    pub(crate) fn never_returns(&self, call: &Instruction) -> bool {
        let named = |at| self.image.fragment_at(at)?.name.as_deref();
        let name = self.import(call).or_else(|| named(self.callee(call)?));
        name.is_some_and(|name| shipped::NEVER_RETURN.contains(&name))
    }
}
