//! Values of registers and stack slots, as expressions over their values at the function's entry.
//!
//! Two addresses are the same lock word when their expressions are. A load is taken to give the same value whenever its
//! address is the same: the pointers through which lock words are reached do not change while a lock is held.

use crate::arch::Abi;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Number of a [`Node`].
pub(crate) type Symbol = u32;

/// As many registers as the architecture with the most has.
pub(crate) const MOST_REGISTERS: usize = 32;

/// An unknown number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    /// What a register held at the function's entry.
    Entry(u8),
    /// What an instruction left in a register; `later`: in a flood, and not before it.
    Result { at: u64, register: u8, later: bool },
    /// What a register holds where paths with different values meet.
    Meeting { at: u64, place: i64, later: bool },
    /// A value in memory.
    Load { base: Option<Symbol>, offset: u64, bytes: u8 },
    /// `a + b * scale`.
    Sum { a: Option<Symbol>, b: Symbol, scale: u8 },
    /// `of + offset | bits`.
    Or { of: Option<Symbol>, offset: u64, bits: u64 },
    /// What an operation without side effects makes of two values (symbol and offset).
    Made { by: u16, of: (Option<Symbol>, u64), and: (Option<Symbol>, u64), bytes: u8 },
    /// Only the lowest byte is known.
    Byte { byte: u8, at: u64 },
}

/// `symbol + offset`, with bits that are surely zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) symbol: Option<Symbol>,
    pub(crate) offset: u64,
    pub(crate) zero: u64,
}

impl Value {
    pub(crate) fn constant(number: u64) -> Self {
        Value { symbol: None, offset: number, zero: !number }
    }

    fn of(symbol: Symbol) -> Self {
        Value { symbol: Some(symbol), offset: 0, zero: 0 }
    }

    pub(crate) fn plus(self, number: u64) -> Self {
        match self.symbol {
            None => Value::constant(self.offset.wrapping_add(number)),
            Some(_) => Value { offset: self.offset.wrapping_add(number), zero: 0, ..self },
        }
    }

    /// True if both are surely the same number.
    pub(crate) fn same(self, other: Self) -> bool {
        (self.symbol, self.offset) == (other.symbol, other.offset)
    }
}

/// All the unknown numbers of one function.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    all: Vec<Node>,
    numbers: BTreeMap<Node, Symbol>,
    /// The number of the stack pointer.
    stack: usize,
}

impl Nodes {
    pub(crate) fn new(abi: &Abi) -> Self {
        Nodes { stack: usize::from(abi.machine.stack()), ..Nodes::default() }
    }

    pub(crate) fn symbol(&mut self, node: Node) -> Value {
        let next = self.all.len() as Symbol;
        let number = *self.numbers.entry(node).or_insert(next);
        if number == next {
            self.all.push(node);
        }
        Value::of(number)
    }

    pub(crate) fn node(&self, symbol: Symbol) -> Option<Node> {
        self.all.get(symbol as usize).copied()
    }

    /// The lowest `bytes` bytes as a number, when known.
    pub(crate) fn low(&self, value: Value, bytes: usize) -> Option<u64> {
        let mask = mask(bytes);
        match value.symbol.map(|symbol| self.node(symbol)) {
            None => Some(value.offset & mask),
            Some(Some(Node::Byte { byte, .. })) if bytes == 1 && value.offset == 0 => Some(u64::from(byte)),
            Some(_) => (value.zero & mask == mask).then_some(0),
        }
    }

    /// The register that the function was entered with, when the value is that and an offset.
    pub(crate) fn entry(&self, value: Value) -> Option<(u8, u64)> {
        match self.node(value.symbol?)? {
            Node::Entry(register) => Some((register, value.offset)),
            _ => None,
        }
    }

    /// Offset from the stack pointer at entry, for an address on the stack.
    pub(crate) fn stack(&self, address: Value) -> Option<i64> {
        let (register, offset) = self.entry(address)?;
        (usize::from(register) == self.stack).then_some(offset as i64)
    }
}

/// A number with its lowest bytes set.
pub(crate) fn mask(bytes: usize) -> u64 {
    if bytes >= 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 }
}

/// The values at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// Those that the architecture does not have are zero.
    pub(crate) registers: [Value; MOST_REGISTERS],
    /// Sorted by offset. States are copied at each branch, and few differ in their slots.
    slots: Rc<Vec<StackSlot>>,
}

/// What lies on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StackSlot {
    /// From the stack pointer at entry.
    offset: i64,
    bytes: u8,
    value: Value,
}

/// More slots than this are not followed.
const MOST_SLOTS: usize = 256;

impl State {
    pub(crate) fn entry(abi: &Abi, nodes: &mut Nodes) -> Self {
        let mut registers = [Value::constant(0); MOST_REGISTERS];
        for (number, register) in registers.iter_mut().enumerate().take(abi.registers) {
            *register = nodes.symbol(Node::Entry(number as u8));
        }
        State { registers, slots: Rc::default() }
    }

    /// Joins the state of another path, at `at`. `repeats`: the other repeats the instruction there alone, so that what met there
    /// before is still what comes from elsewhere. (In a longer loop that may have been computed anew meanwhile.)
    fn meet(&mut self, other: &State, at: u64, later: bool, repeats: bool, nodes: &mut Nodes) {
        for register in 0..MOST_REGISTERS {
            let (mine, theirs) = (self.registers[register], other.registers[register]);
            let zero = mine.zero & theirs.zero;
            if mine.same(theirs) {
                self.registers[register] = Value { zero, ..mine };
                continue;
            }
            let meeting = nodes.symbol(Node::Meeting { at, place: register as i64, later });
            self.registers[register] = if repeats && theirs.same(meeting) { mine } else { Value { zero, ..meeting } };
        }
        let is_there = |mine: &StackSlot| {
            other.slot(mine.offset).is_some_and(|theirs| theirs.bytes == mine.bytes && theirs.value.same(mine.value))
        };
        if !Rc::ptr_eq(&self.slots, &other.slots) && !self.slots.iter().all(is_there) {
            Rc::make_mut(&mut self.slots).retain(is_there);
        }
    }

    fn slot(&self, offset: i64) -> Option<&StackSlot> {
        self.slots.binary_search_by_key(&offset, |slot| slot.offset).ok().map(|at| &self.slots[at])
    }

    /// What stands at an address.
    pub(crate) fn load(&self, address: Value, bytes: usize, nodes: &mut Nodes) -> Value {
        // Of a byte or two the rest of the value that was stored is not there.
        if let Some(value) = self.stored(address, bytes, nodes).filter(|value| bytes >= 4 || value.symbol.is_none()) {
            return value;
        }
        let load = Node::Load { base: address.symbol, offset: address.offset, bytes: bytes as u8 };
        nodes.symbol(load)
    }

    /// The value whose lowest bytes were stored to a stack slot.
    pub(crate) fn stored(&self, address: Value, bytes: usize, nodes: &Nodes) -> Option<Value> {
        let slot = self.slot(nodes.stack(address)?)?;
        (usize::from(slot.bytes) == bytes).then_some(slot.value)
    }

    /// Where on the stack an address is kept, or one at a known distance from it: offset from the stack pointer, and the value.
    pub(crate) fn kept_on_stack(&self, address: Value, nodes: &Nodes) -> Option<(i64, Value)> {
        let pointer = nodes.stack(self.registers[nodes.stack])?;
        let is_kept = |slot: &&StackSlot| slot.bytes == 8 && slot.value.symbol == address.symbol;
        let slot = self.slots.iter().filter(|slot| slot.offset >= pointer).find(is_kept)?;
        Some((slot.offset - pointer, slot.value))
    }

    pub(crate) fn store(&mut self, address: Value, bytes: usize, value: Value, nodes: &Nodes) {
        let Some(slot) = nodes.stack(address) else { return };
        let end = slot.saturating_add(bytes as i64);
        let slots = Rc::make_mut(&mut self.slots);
        slots.retain(|old| old.offset >= end || old.offset.saturating_add(i64::from(old.bytes)) <= slot);
        if slots.len() < MOST_SLOTS {
            let value = if value.symbol.is_none() { Value::constant(value.offset & mask(bytes)) } else { value };
            let at = slots.partition_point(|old| old.offset < slot);
            slots.insert(at, StackSlot { offset: slot, bytes: bytes as u8, value });
        }
    }
}

/// States where several paths meet.
#[derive(Debug, Default)]
pub(crate) struct JoinedStates {
    /// By place, then by whether it repeats that instruction alone, and where it comes from.
    arrived: BTreeMap<u32, BTreeMap<(bool, u32), State>>,
    known: BTreeMap<u32, (State, u32)>,
}

/// After this number of changes the state at a place only shrinks, so that it converges.
const MOST_CHANGES: u32 = 12;

impl JoinedStates {
    pub(crate) fn get(&self, place: u32) -> Option<&State> {
        self.known.get(&place).map(|known| &known.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn remove(&mut self, place: u32) {
        self.known.remove(&place);
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        self.known.keys().copied()
    }

    /// A path arrives at a place (its number and address) from another; `repeats`: from the branch right behind it. Whether the state
    /// there changed.
    pub(crate) fn arrive(
        &mut self,
        (from, repeats): (u32, bool),
        (to, at): (u32, u64),
        state: &State,
        later: bool,
        nodes: &mut Nodes,
    ) -> bool {
        let paths = self.arrived.entry(to).or_default();
        paths.insert((repeats, from), state.clone());
        let mut all = paths.iter();
        let Some(mut next) = all.next().map(|(_, first)| first.clone()) else { return false };
        // Those that repeat come last.
        all.for_each(|((repeats, _), other)| next.meet(other, at, later, *repeats, nodes));
        let Some((before, rounds)) = self.known.get_mut(&to) else {
            self.known.insert(to, (next, 1));
            return true;
        };
        if *rounds > MOST_CHANGES {
            next.meet(before, at, later, false, nodes);
        }
        if next == *before {
            return false;
        }
        *rounds = rounds.saturating_add(1);
        *before = next;
        true
    }
}

pub(crate) fn sum(a: Value, b: Value, scale: u8, nodes: &mut Nodes) -> Value {
    match (a.symbol, b.symbol) {
        (_, None) => a.plus(b.offset.wrapping_mul(u64::from(scale))),
        (None, Some(_)) if scale == 1 => b.plus(a.offset),
        (symbol, Some(other)) => {
            let (a_symbol, b_symbol) = match symbol {
                Some(symbol) if scale == 1 && other < symbol => (Some(other), symbol),
                _ => (symbol, other),
            };
            let offset = a.offset.wrapping_add(b.offset.wrapping_mul(u64::from(scale)));
            nodes.symbol(Node::Sum { a: a_symbol, b: b_symbol, scale }).plus(offset)
        }
    }
}
