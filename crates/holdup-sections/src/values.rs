//! Values of registers and stack slots, as expressions over their values at the function's entry.
//!
//! Two addresses are the same lock word when their expressions are. A load is taken to give the same value whenever its
//! address is the same: the pointers through which lock words are reached do not change while a lock is held.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use std::collections::BTreeMap;

/// Number of a [`Node`].
pub(crate) type Symbol = u32;

/// Numbers of registers, as x86-64 encodes them.
pub(crate) const RAX: usize = 0;
pub(crate) const RSP: usize = 4;
pub(crate) const RDI: usize = 7;

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

    /// Whether both are surely the same number.
    pub(crate) fn same(self, other: Self) -> bool {
        (self.symbol, self.offset) == (other.symbol, other.offset)
    }
}

/// All the unknown numbers of one function.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    all: Vec<Node>,
    numbers: BTreeMap<Node, Symbol>,
    factory: Option<Factory>,
}

/// The decoder's tables of what an instruction writes.
struct Factory(InstructionInfoFactory);

impl std::fmt::Debug for Factory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Factory")
    }
}

impl Nodes {
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
        (usize::from(register) == RSP).then_some(offset as i64)
    }
}

/// A number with its lowest bytes set.
pub(crate) fn mask(bytes: usize) -> u64 {
    if bytes >= 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 }
}

/// The number of a general register, in all its widths but the second byte.
pub(crate) fn number(register: Register) -> Option<usize> {
    use Register::{AH, BH, CH, DH};
    (register.is_gpr() && !matches!(register, AH | BH | CH | DH)).then(|| register.full_register().number())
}

/// The values at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) registers: [Value; 16],
    /// By offset from the stack pointer at entry: width in bytes, value.
    slots: BTreeMap<i64, (u8, Value)>,
}

/// More slots than this are not followed.
const MOST_SLOTS: usize = 256;

impl State {
    pub(crate) fn entry(nodes: &mut Nodes) -> Self {
        let registers = std::array::from_fn(|register| nodes.symbol(Node::Entry(register as u8)));
        State { registers, slots: BTreeMap::new() }
    }

    /// Joins the state of another path, at `at`.
    fn meet(&mut self, other: &State, at: u64, later: bool, nodes: &mut Nodes) {
        for register in 0..16 {
            let (mine, theirs) = (self.registers[register], other.registers[register]);
            let zero = mine.zero & theirs.zero;
            self.registers[register] = if mine.same(theirs) {
                Value { zero, ..mine }
            } else {
                Value { zero, ..nodes.symbol(Node::Meeting { at, place: register as i64, later }) }
            };
        }
        self.slots.retain(|slot, (bytes, mine)| {
            other.slots.get(slot).is_some_and(|(width, theirs)| width == bytes && theirs.same(*mine))
        });
    }

    /// The address of an instruction's memory operand.
    pub(crate) fn address(&self, instruction: &Instruction, nodes: &mut Nodes) -> Value {
        if instruction.is_ip_rel_memory_operand() {
            return Value::constant(instruction.ip_rel_memory_address());
        }
        let unknown = Node::Result { at: instruction.ip(), register: 17, later: false };
        if matches!(instruction.memory_segment(), Register::FS | Register::GS) {
            return nodes.symbol(unknown);
        }
        let base = match instruction.memory_base() {
            Register::None => Value::constant(0),
            base => match number(base) {
                Some(base) => self.registers[base],
                None => return nodes.symbol(unknown),
            },
        };
        let base = base.plus(instruction.memory_displacement64());
        match instruction.memory_index() {
            Register::None => base,
            index => {
                let Some(index) = number(index) else { return nodes.symbol(unknown) };
                sum(base, self.registers[index], instruction.memory_index_scale() as u8, nodes)
            }
        }
    }

    /// What stands at an address.
    fn load(&self, address: Value, bytes: usize, nodes: &mut Nodes) -> Value {
        if let Some(slot) = nodes.stack(address)
            && let Some((width, value)) = self.slots.get(&slot)
            && usize::from(*width) == bytes
        {
            return *value;
        }
        let load = Node::Load { base: address.symbol, offset: address.offset, bytes: bytes as u8 };
        nodes.symbol(load)
    }

    /// Where on the stack an address is kept, or one at a known distance from it: offset from the stack pointer, and the value.
    pub(crate) fn kept_on_stack(&self, address: Value, nodes: &Nodes) -> Option<(i64, Value)> {
        let pointer = nodes.stack(self.registers[RSP])?;
        let is_kept = |(_, (bytes, value)): &(&i64, &(u8, Value))| *bytes == 8 && value.symbol == address.symbol;
        let (slot, (_, value)) = self.slots.iter().filter(|(slot, _)| **slot >= pointer).find(is_kept)?;
        Some((slot - pointer, *value))
    }

    fn store(&mut self, address: Value, bytes: usize, value: Value, nodes: &Nodes) {
        let Some(slot) = nodes.stack(address) else { return };
        let end = slot.saturating_add(bytes as i64);
        let near: Vec<i64> = self
            .slots
            .range(slot.saturating_sub(8)..end)
            .filter(|(at, (width, _))| at.saturating_add(i64::from(*width)) > slot)
            .map(|(at, _)| *at)
            .collect();
        for at in near {
            self.slots.remove(&at);
        }
        if bytes >= 4 && self.slots.len() < MOST_SLOTS {
            self.slots.insert(slot, (bytes as u8, value));
        }
    }

    /// The value of an operand that is a register, a number or memory.
    pub(crate) fn operand(&self, instruction: &Instruction, operand: u32, nodes: &mut Nodes) -> Option<Value> {
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand);
                let value = self.registers[number(register)?];
                Some(match (value.symbol, register.size()) {
                    (None, bytes) => Value::constant(value.offset & mask(bytes)),
                    (Some(_), _) => value,
                })
            }
            OpKind::Memory => {
                let address = self.address(instruction, nodes);
                Some(self.load(address, width(instruction, operand), nodes))
            }
            _ => instruction.try_immediate(operand).ok().map(Value::constant),
        }
    }

    fn set(&mut self, register: Register, value: Value, at: u64, nodes: &mut Nodes) {
        let Some(full) = number(register) else {
            if register.is_gpr() {
                self.unknown(register.full_register().number(), at, false, nodes);
            }
            return;
        };
        self.registers[full] = match (register.size(), value.symbol) {
            (8, _) => value,
            (4, None) => Value::constant(value.offset & mask(4)),
            (4, Some(_)) => Value { zero: value.zero | !mask(4), ..value },
            (1, None) => nodes.symbol(Node::Byte { byte: value.offset as u8, at }),
            // What is built for size keeps the byte that `xchg` stores in a separate register.
            (1, Some(_)) if let Some(byte) = nodes.low(value, 1) => nodes.symbol(Node::Byte { byte: byte as u8, at }),
            _ => nodes.symbol(Node::Result { at, register: full as u8, later: false }),
        };
    }

    fn unknown(&mut self, register: usize, at: u64, later: bool, nodes: &mut Nodes) {
        self.registers[register] = nodes.symbol(Node::Result { at, register: register as u8, later });
    }

    /// The state behind an instruction. `later`: whether this belongs to a flood.
    pub(crate) fn step(&mut self, instruction: &Instruction, later: bool, nodes: &mut Nodes) {
        if !self.known(instruction, nodes) {
            self.forget(instruction, later, nodes);
        }
    }

    /// Instructions whose result is an expression. Whether this was one.
    fn known(&mut self, instruction: &Instruction, nodes: &mut Nodes) -> bool {
        let at = instruction.ip();
        let result = match instruction.mnemonic() {
            Mnemonic::Mov => self.operand(instruction, 1, nodes),
            Mnemonic::Movzx => self.zero_extended(instruction, nodes),
            Mnemonic::Movsxd if instruction.op1_kind() == OpKind::Register => self.operand(instruction, 1, nodes),
            Mnemonic::Lea => Some(self.address(instruction, nodes)),
            Mnemonic::Xor | Mnemonic::Sub if same_register(instruction) => Some(Value::constant(0)),
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec => self.added(instruction, nodes),
            Mnemonic::And | Mnemonic::Or | Mnemonic::Btr | Mnemonic::Bts => self.masked(instruction, nodes),
            Mnemonic::Push => return self.push(instruction, nodes),
            Mnemonic::Pop => return self.pop(instruction, nodes),
            Mnemonic::Leave => {
                self.registers[RSP] = self.registers[5];
                self.registers[5] = self.load(self.registers[RSP], 8, nodes);
                self.registers[RSP] = self.registers[RSP].plus(8);
                return true;
            }
            Mnemonic::Nop | Mnemonic::Endbr64 => return true,
            _ => None,
        };
        let Some(value) = result.or_else(|| self.made(instruction, nodes)) else { return false };
        match instruction.op0_kind() {
            OpKind::Register => self.set(instruction.op0_register(), value, at, nodes),
            OpKind::Memory => {
                let address = self.address(instruction, nodes);
                self.store(address, width(instruction, 0), value, nodes);
            }
            _ => return false,
        }
        true
    }

    /// The result of an operation that gives the same for the same operands.
    fn made(&self, instruction: &Instruction, nodes: &mut Nodes) -> Option<Value> {
        use Mnemonic::{And, Imul, Movsx, Movsxd, Movzx, Neg, Not, Or, Sar, Shl, Shr, Sub, Xor};
        let one = matches!(instruction.mnemonic(), Movsx | Movsxd | Movzx);
        if !(one || matches!(instruction.mnemonic(), And | Imul | Neg | Not | Or | Sar | Shl | Shr | Sub | Xor))
            || instruction.has_lock_prefix()
            || width(instruction, 0) < 4
        {
            return None;
        }
        let operands = instruction.op_count();
        // With one operand `imul` writes rax and rdx.
        if instruction.mnemonic() == Imul && operands < 2 {
            return None;
        }
        let first = if one || operands == 3 { 1 } else { 0 };
        let of = self.operand(instruction, first, nodes)?;
        let and =
            if one || operands < 2 { Value::constant(0) } else { self.operand(instruction, operands - 1, nodes)? };
        let by = instruction.mnemonic() as u16;
        // The widths of both operands are part of the operation.
        let bytes = (width(instruction, 0) * 16 + width(instruction, first)) as u8;
        let (of, and) = ((of.symbol, of.offset), (and.symbol, and.offset));
        Some(nodes.symbol(Node::Made { by, of, and, bytes }))
    }

    fn zero_extended(&self, instruction: &Instruction, nodes: &mut Nodes) -> Option<Value> {
        let bytes = width(instruction, 1);
        let value = self.operand(instruction, 1, nodes)?;
        match nodes.low(value, bytes) {
            Some(number) => Some(Value::constant(number)),
            // The register may hold more than the bytes that are taken.
            None if instruction.op1_kind() == OpKind::Register => None,
            None => Some(Value { zero: value.zero | !mask(bytes), ..value }),
        }
    }

    fn added(&self, instruction: &Instruction, nodes: &mut Nodes) -> Option<Value> {
        if width(instruction, 0) < 4 || instruction.has_lock_prefix() {
            return None;
        }
        let before = self.operand(instruction, 0, nodes)?;
        let by = match instruction.mnemonic() {
            Mnemonic::Inc => Value::constant(1),
            Mnemonic::Dec => Value::constant(u64::MAX),
            _ => self.operand(instruction, 1, nodes)?,
        };
        match (instruction.mnemonic() == Mnemonic::Sub, by.symbol) {
            (true, None) => Some(before.plus(by.offset.wrapping_neg())),
            (true, Some(_)) => None,
            (false, _) => Some(sum(before, by, 1, nodes)),
        }
    }

    fn masked(&self, instruction: &Instruction, nodes: &mut Nodes) -> Option<Value> {
        if instruction.has_lock_prefix() || width(instruction, 0) < 4 {
            return None;
        }
        let (before, by) = (self.operand(instruction, 0, nodes)?, self.operand(instruction, 1, nodes)?);
        let (before, by) = if before.symbol.is_none() { (by, before) } else { (before, by) };
        if by.symbol.is_some() {
            return None;
        }
        let bit = 1u64 << (by.offset & if width(instruction, 0) == 8 { 63 } else { 31 });
        let bits = match instruction.mnemonic() {
            Mnemonic::And => by.offset,
            Mnemonic::Btr => !bit,
            Mnemonic::Bts => bit,
            _ => by.offset,
        };
        if matches!(instruction.mnemonic(), Mnemonic::Or | Mnemonic::Bts) {
            let bits = bits & mask(width(instruction, 0));
            let or = Node::Or { of: before.symbol, offset: before.offset, bits };
            return Some(Value { zero: before.zero & !bits, ..nodes.symbol(or) });
        }
        if before.symbol.is_none() {
            return Some(Value::constant(before.offset & bits));
        }
        let by = Mnemonic::And as u16;
        let (of, bytes) = ((before.symbol, before.offset), width(instruction, 0) as u8);
        let result = nodes.symbol(Node::Made { by, of, and: (None, bits), bytes });
        Some(Value { zero: before.zero | !bits, ..result })
    }

    fn push(&mut self, instruction: &Instruction, nodes: &mut Nodes) -> bool {
        let value = self.operand(instruction, 0, nodes);
        self.registers[RSP] = self.registers[RSP].plus(8u64.wrapping_neg());
        if let Some(value) = value {
            self.store(self.registers[RSP], 8, value, nodes);
        }
        true
    }

    fn pop(&mut self, instruction: &Instruction, nodes: &mut Nodes) -> bool {
        let value = self.load(self.registers[RSP], 8, nodes);
        self.registers[RSP] = self.registers[RSP].plus(8);
        if instruction.op0_kind() == OpKind::Register {
            self.set(instruction.op0_register(), value, instruction.ip(), nodes);
        }
        true
    }

    /// What an instruction writes is unknown behind it.
    fn forget(&mut self, instruction: &Instruction, later: bool, nodes: &mut Nodes) {
        use iced_x86::FlowControl::{Call, IndirectCall};
        let at = instruction.ip();
        if matches!(instruction.flow_control(), Call | IndirectCall) && !instruction.is_jmp_short_or_near() {
            // psABI: a called function keeps rbx, rbp, rsp and r12 to r15.
            for register in [0, 1, 2, 6, 7, 8, 9, 10, 11] {
                self.unknown(register, at, later, nodes);
            }
            return;
        }
        let stack = self.registers[RSP];
        let mut factory = nodes.factory.take().unwrap_or_else(|| Factory(InstructionInfoFactory::new()));
        let mut written = [false; 16];
        for used in factory.0.info(instruction).used_registers() {
            let writes = !matches!(used.access(), OpAccess::None | OpAccess::Read | OpAccess::CondRead);
            if writes && used.register().is_gpr() {
                written[used.register().full_register().number()] = true;
            }
        }
        nodes.factory = Some(factory);
        for (register, _) in written.iter().enumerate().filter(|(_, written)| **written) {
            self.unknown(register, at, later, nodes);
        }
        if instruction.op0_kind() == OpKind::Memory && instruction.op_count() > 0 {
            let address = self.address(instruction, nodes);
            let value = nodes.symbol(Node::Result { at, register: 18, later });
            self.store(address, width(instruction, 0), value, nodes);
        }
        if written[RSP] && instruction.is_stack_instruction() {
            self.registers[RSP] = stack.plus(i64::from(instruction.stack_pointer_increment()) as u64);
        }
    }
}

/// States where several paths meet.
#[derive(Debug, Default)]
pub(crate) struct JoinedStates {
    /// By place, then by where a path comes from.
    arrived: BTreeMap<u32, BTreeMap<u32, State>>,
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

    /// A path arrives at a place (its number and address) from another. Whether the state there changed.
    pub(crate) fn arrive(
        &mut self,
        from: u32,
        (to, at): (u32, u64),
        state: &State,
        later: bool,
        nodes: &mut Nodes,
    ) -> bool {
        let paths = self.arrived.entry(to).or_default();
        paths.insert(from, state.clone());
        let mut all = paths.values();
        let Some(mut next) = all.next().cloned() else { return false };
        all.for_each(|other| next.meet(other, at, later, nodes));
        let Some((before, rounds)) = self.known.get_mut(&to) else {
            self.known.insert(to, (next, 1));
            return true;
        };
        if *rounds > MOST_CHANGES {
            next.meet(before, at, later, nodes);
        }
        if next == *before {
            return false;
        }
        *rounds = rounds.saturating_add(1);
        *before = next;
        true
    }
}

fn sum(a: Value, b: Value, scale: u8, nodes: &mut Nodes) -> Value {
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

fn same_register(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
        && instruction.op0_register().size() >= 4
}

/// The bytes of a register or memory operand.
pub(crate) fn width(instruction: &Instruction, operand: u32) -> usize {
    match instruction.op_kind(operand) {
        OpKind::Register => instruction.op_register(operand).size(),
        OpKind::Memory => instruction.memory_size().size(),
        _ => 8,
    }
}
