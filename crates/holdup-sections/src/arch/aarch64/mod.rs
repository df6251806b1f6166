//! AArch64, decoded by yaxpeax-arm.

mod access;
mod atomic;
mod form;
mod state;
mod table;

use super::{
    Abi, Access, Architecture, BranchOn, Comparison, Flag, FlagCopy, Flow, Form, Helper, Instruction, Instructions,
    Unwind,
};
use crate::image::Image;
use crate::values::{Nodes, State, Value, mask};
use form::{EQUAL, NOT_EQUAL, SP, Source, ZERO, place, register, source};
use holdup_model::sections::Machine;
use std::collections::BTreeSet;
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Opcode, Operand};

pub(super) struct Rules;

/// An instruction, or several that are one operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    inner: yaxpeax_arm::armv8::a64::Instruction,
    atomic: Option<atomic::Atomic>,
}

/// Those that a called function may change (AAPCS64, 6.1.1), and the return address.
const OTHERS: &[usize] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 30];

static ABI: Abi = Abi {
    id: "aarch64",
    machine: Machine::Aarch64,
    elf: object::elf::EM_AARCH64,
    registers: 32,
    result: 0,
    arguments: &[0, 1, 2, 3, 4, 5, 6, 7],
    kept: &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29],
    others: OTHERS,
    // In PSTATE, as ptrace shows it (Arm ARM, C5.2.18).
    zero_flag: 1 << 30,
    carry_flag: 1 << 29,
    call_bytes: 0,
    slots: [object::elf::R_AARCH64_JUMP_SLOT, object::elf::R_AARCH64_GLOB_DAT],
    relative: object::elf::R_AARCH64_RELATIVE,
    // `bti c`, `adrp`, `ldr`, `add`, `br`.
    stub_bytes: 20,
    // DWARF for the Arm 64-bit Architecture, 4.1.
    unwind: Unwind {
        vendor: gimli::Vendor::AArch64,
        return_address: gimli::AArch64::X30,
        stack: gimli::AArch64::SP,
        frame: gimli::AArch64::X29,
        saved: [
            gimli::AArch64::X24,
            gimli::AArch64::X23,
            gimli::AArch64::X22,
            gimli::AArch64::X21,
            gimli::AArch64::X20,
            gimli::AArch64::X19,
        ],
    },
};

impl Architecture for Rules {
    fn abi(&self) -> &'static Abi {
        &ABI
    }

    fn instructions<'a>(&self, code: &'a [u8], at: u64) -> Instructions<'a> {
        Box::new(Words { code, at, literals: BTreeSet::new(), pairs: true })
    }

    fn is_landing_pad(&self, instruction: &Instruction) -> bool {
        own(instruction).is_some_and(|own| is_pad(&own.inner))
    }

    fn is_pause(&self, instruction: &Instruction) -> bool {
        own(instruction).is_some_and(|own| match own.inner.opcode {
            Opcode::ISB => true,
            // `yield` and `wfe`.
            Opcode::HINT => matches!(hint(&own.inner), Some(1 | 2)),
            _ => false,
        })
    }

    fn may_acquire(&self, instruction: &Instruction) -> bool {
        own(instruction).and_then(|own| own.atomic).is_some_and(|atomic| atomic.may_acquire())
    }

    fn may_write(&self, instruction: &Instruction) -> bool {
        own(instruction).is_some_and(access::may_write)
    }

    fn may_count(&self, instruction: &Instruction) -> bool {
        own(instruction).and_then(|own| own.atomic).is_some_and(|atomic| atomic.may_count())
    }

    fn access(&self, instruction: &Instruction, state: &State, nodes: &mut Nodes) -> Option<Access> {
        access::first(own(instruction)?, instruction.ip, state, nodes)
    }

    fn second_access(&self, instruction: &Instruction, state: &State, nodes: &mut Nodes) -> Option<Access> {
        access::second(own(instruction)?, instruction.ip, state, nodes)
    }

    fn step(&self, instruction: &Instruction, state: &mut State, later: bool, nodes: &mut Nodes) {
        if let Some(own) = own(instruction) {
            state::step(state, instruction, own, later, nodes);
        }
    }

    fn comparison(&self, instruction: &Instruction, state: &State, _: &mut Nodes) -> Option<Comparison> {
        let inner = &own(instruction)?.inner;
        let by = source(inner.operands[2]);
        let (register, bytes) = register(inner.operands[1])?;
        let bits = match (inner.opcode, by) {
            (Opcode::SUBS, Source::Number(0)) => mask(bytes),
            (Opcode::ANDS, Source::Number(bits)) => bits & mask(bytes),
            (Opcode::ANDS, Source::Register(same)) if same == register => mask(bytes),
            _ => return None,
        };
        let value = state::read(state, register);
        (register < ZERO).then_some(Comparison { value, bits, flag: Flag::Zero, result: None })
    }

    fn compared(&self, instruction: &Instruction, state: &State, nodes: &mut Nodes) -> Option<(Value, Value)> {
        let inner = &own(instruction)?.inner;
        if inner.opcode != Opcode::SUBS {
            return None;
        }
        let (a, bytes) = register(inner.operands[1])?;
        let b = match (source(inner.operands[2]), inner.operands[2]) {
            // A comparison of bytes or halves, which registers have with zeros above.
            (Source::Other, Operand::RegShift(_, 0, _, number)) => Source::Register(usize::from(number) & 31),
            (from, _) => from,
        };
        Some((state::read(state, a), state::value(state, b, bytes, nodes)?))
    }

    fn branch_on(&self, instruction: &Instruction) -> Option<BranchOn> {
        let inner = &own(instruction)?.inner;
        match inner.opcode {
            Opcode::Bcc(condition @ (EQUAL | NOT_EQUAL)) => {
                Some(BranchOn::Flag { flag: Flag::Zero, taken_when_set: condition == EQUAL })
            }
            Opcode::CBZ | Opcode::CBNZ => {
                let (register, bytes) = register(inner.operands[0])?;
                let taken_when_zero = inner.opcode == Opcode::CBZ;
                (register < ZERO).then_some(BranchOn::Register { register, bits: mask(bytes), taken_when_zero })
            }
            Opcode::TBZ | Opcode::TBNZ => {
                let (register, _) = register(inner.operands[0])?;
                let Source::Number(bit) = source(inner.operands[1]) else { return None };
                let taken_when_zero = inner.opcode == Opcode::TBZ;
                (register < ZERO).then_some(BranchOn::Register { register, bits: 1 << (bit & 63), taken_when_zero })
            }
            _ => None,
        }
    }

    /// `cset`, which is `csinc` of the zero register on the opposite condition.
    fn flag_copy(&self, instruction: &Instruction) -> Option<FlagCopy> {
        let inner = &own(instruction)?.inner;
        let Operand::ConditionCode(condition @ (EQUAL | NOT_EQUAL)) = inner.operands[3] else { return None };
        let [to, a, b] = [0, 1, 2].map(|number| register(inner.operands[number]).map(|(number, _)| number));
        let is_cset = inner.opcode == Opcode::CSINC && a == Some(ZERO) && b == Some(ZERO);
        let register = to.filter(|to| is_cset && *to < SP)?;
        Some(FlagCopy { register, mask: u64::MAX, flag: Flag::Zero, when_set: condition == NOT_EQUAL })
    }

    fn changes_flags(&self, instruction: &Instruction) -> bool {
        use Opcode::*;
        let Some(own) = own(instruction) else { return true };
        own.atomic.is_some_and(|atomic| atomic.changes_flags)
            || instruction.is_call()
            || matches!(
                own.inner.opcode,
                ADDS | SUBS | ANDS | BICS | ADCS | SBCS | CCMP | CCMN | FCMP | FCMPE | FCCMP | FCCMPE | MSR
            )
    }

    fn first_argument(&self, instruction: &Instruction) -> Option<Option<u64>> {
        let inner = &own(instruction)?.inner;
        if instruction.flow != Flow::Next || register(inner.operands[0])?.0 != ABI.arguments[0] {
            return None;
        }
        match (inner.opcode, source(inner.operands[1])) {
            (Opcode::MOVZ, Source::Number(number)) => Some(Some(number)),
            _ => (access::written(inner.opcode) > 0 && !access::may_write(own(instruction)?)).then_some(None),
        }
    }

    fn stub(&self, code: &[u8], at: u64) -> Option<u64> {
        let mut instructions = words(&code[..code.len().min(20)], at);
        let first = instructions.find(|instruction| !self.is_landing_pad(instruction))?;
        let (page, load) = (own(&first)?.inner, own(&instructions.next()?)?.inner);
        let last = instructions.last()?;
        let Operand::PCOffset(by) = page.operands[1] else { return None };
        let from = place(load.operands[1])?;
        let fits = page.opcode == Opcode::ADRP
            && load.opcode == Opcode::LDR
            && register(page.operands[0]) == Some((16, 8))
            && register(load.operands[0]) == Some((17, 8))
            && from.base == 16
            && last.flow == Flow::JumpUnknown;
        fits.then(|| (first.ip & !0xfff).wrapping_add_signed(by).wrapping_add_signed(from.offset))
    }

    fn addresses(&self, instructions: Instructions<'_>) -> Vec<u64> {
        table::addresses(instructions)
    }

    fn jump_table(
        &self,
        image: &Image<'_>,
        jump: &Instruction,
        before: &[&Instruction],
        inside: &dyn Fn(u64) -> bool,
    ) -> Vec<u64> {
        table::targets(image, jump, before, inside).unwrap_or_default()
    }

    fn helper(&self, code: &[u8], at: u64) -> Option<Helper> {
        let words = inner_of(code, at, atomic::HELPER_INSTRUCTIONS);
        let (atomic, before, after) = atomic::helper(&words)?;
        let placed = |pieces: Vec<(u64, u64)>| pieces.into_iter().map(|(begin, end)| (at + begin, at + end)).collect();
        let form = Form::Arm(Own { inner: *words.first()?, atomic: Some(atomic) });
        Some(Helper { form, before: placed(before), after: placed(after) })
    }
}

/// The decoder's form of an instruction.
fn own(instruction: &Instruction) -> Option<&Own> {
    match &instruction.form {
        Form::Arm(own) => Some(own),
        _ => None,
    }
}

fn inner_of(code: &[u8], at: u64, most: usize) -> Vec<yaxpeax_arm::armv8::a64::Instruction> {
    let words = words(code, at).take(most);
    words.map_while(|instruction| own(&instruction).map(|own| own.inner)).collect()
}

/// The number of a hint.
fn hint(inner: &yaxpeax_arm::armv8::a64::Instruction) -> Option<u32> {
    match (inner.operands[0], inner.operands[1]) {
        (Operand::ControlReg(high), Operand::Immediate(low)) => Some(u32::from(high) << 3 | low),
        _ => None,
    }
}

/// `bti`, in its four forms, and what signs the return address in its place.
fn is_pad(inner: &yaxpeax_arm::armv8::a64::Instruction) -> bool {
    match inner.opcode {
        Opcode::PACIASP | Opcode::PACIBSP => true,
        Opcode::HINT => matches!(hint(inner), Some(32 | 34 | 36 | 38)),
        _ => false,
    }
}

/// The words of a piece of code.
struct Words<'a> {
    code: &'a [u8],
    at: u64,
    /// Words that an instruction before them loads as numbers.
    literals: BTreeSet<u64>,
    /// True if an exclusive load and what follows up to its store are one instruction.
    pairs: bool,
}

fn words(code: &[u8], at: u64) -> Words<'_> {
    Words { code, at, literals: BTreeSet::new(), pairs: false }
}

impl Iterator for Words<'_> {
    type Item = Instruction;

    fn next(&mut self) -> Option<Instruction> {
        let (word, rest) = self.code.split_first_chunk::<4>()?;
        let ip = self.at;
        (self.code, self.at) = (rest, ip.wrapping_add(4));
        let decoded = InstDecoder::default().decode(&mut U8Reader::new(word)).ok();
        let Some(inner) = decoded.filter(|_| !self.literals.remove(&ip)) else {
            return Some(Instruction { ip, bytes: 4, flow: Flow::NotKnown, form: Form::None });
        };
        if let (Opcode::LDR | Opcode::LDRSW, Operand::PCOffset(by)) = (inner.opcode, inner.operands[1]) {
            let (from, wide) = (ip.wrapping_add_signed(by), access::pair_bytes(inner.operands[0]) as u64);
            self.literals.extend((from..from.saturating_add(wide)).step_by(4).filter(|at| *at > ip));
        }
        if self.pairs
            && form::is_exclusive_load(inner.opcode)
            && let Some(pair) = pair(word, rest, ip)
        {
            let behind = usize::from(pair.bytes) - 4;
            (self.code, self.at) = (rest.get(behind..).unwrap_or_default(), pair.next_ip());
            return Some(pair);
        }
        let flow = flow(&inner, ip);
        let atomic = atomic::single(&inner);
        Some(Instruction { ip, bytes: 4, flow, form: Form::Arm(Own { inner, atomic }) })
    }
}

/// An exclusive load with what follows up to its store, as one instruction.
fn pair(first: &[u8], rest: &[u8], ip: u64) -> Option<Instruction> {
    let most = rest.len().min(4 * atomic::MOST_BETWEEN + 4);
    let all = inner_of(&[first, &rest[..most]].concat(), ip, atomic::MOST_BETWEEN + 2);
    let (atomic, last) = atomic::exclusive(&all, ip)?;
    let flow = atomic.fails_to.map_or(Flow::Next, Flow::Branch);
    let form = Form::Arm(Own { inner: all[last], atomic: Some(atomic) });
    Some(Instruction { ip, bytes: 4 * (last as u8 + 1), flow, form })
}

fn flow(inner: &yaxpeax_arm::armv8::a64::Instruction, ip: u64) -> Flow {
    use Opcode::*;
    let to = inner.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(by) => Some(ip.wrapping_add_signed(*by)),
        _ => None,
    });
    match (inner.opcode, to) {
        // Conditions 14 and 15 are always true.
        (B | Bcc(14 | 15), Some(to)) => Flow::Jump(to),
        (Bcc(_) | BCcc(_) | CBZ | CBNZ | TBZ | TBNZ, Some(to)) => Flow::Branch(to),
        (BL, Some(to)) => Flow::Call(to),
        (BLR | BLRAA | BLRAB | BLRAAZ | BLRABZ, _) => Flow::CallUnknown,
        (BR | BRAA | BRAB | BRAAZ | BRABZ, _) => Flow::JumpUnknown,
        (RET | RETAA | RETAB | RETAASPPC | RETABSPPC | RETAASPPCR | RETABSPPCR, _) => Flow::Return,
        (SVC, _) => Flow::SystemCall,
        (UDF | BRK | HLT | HVC | SMC | ERET | ERETAA | ERETAB | DRPS | DCPS1 | DCPS2 | DCPS3, _) => Flow::Ends,
        (Invalid, _) => Flow::NotKnown,
        _ => Flow::Next,
    }
}
