//! The parts of an instruction that the analysis asks for.

use yaxpeax_arm::armv8::a64::{Instruction, Opcode, Operand, ShiftStyle, SizeCode};

/// The stack pointer.
pub(super) const SP: usize = 31;
/// The register that is always zero; it has no place in a state.
pub(super) const ZERO: usize = 32;

/// A number, or a register with what is done to it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Number(u64),
    Register(usize),
    /// Shifted left by these bits.
    Shifted(usize, u8),
    Other,
}

/// A place in memory: base, what is added to it, and what the base becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) base: usize,
    pub(super) offset: i64,
    pub(super) index: Option<Source>,
    pub(super) base_after: Option<i64>,
}

/// The number of a general register, and its bytes.
pub(super) fn register(operand: Operand) -> Option<(usize, usize)> {
    let bytes = |size| if size == SizeCode::X { 8 } else { 4 };
    match operand {
        Operand::Register(size, 31) => Some((ZERO, bytes(size))),
        Operand::Register(size, number) | Operand::RegisterOrSP(size, number) => {
            Some((usize::from(number) & 31, bytes(size)))
        }
        _ => None,
    }
}

/// The value of an operand that is no place in memory.
pub(super) fn source(operand: Operand) -> Source {
    match operand {
        Operand::Immediate(number) => Source::Number(u64::from(number)),
        Operand::Imm64(number) => Source::Number(number),
        Operand::Imm16(number) => Source::Number(u64::from(number)),
        Operand::ImmShift(number, by) => Source::Number(u64::from(number).checked_shl(u32::from(by)).unwrap_or(0)),
        Operand::RegShift(style, by, size, number) => {
            let number = if number == 31 { ZERO } else { usize::from(number) & 31 };
            let wide = match style {
                ShiftStyle::LSL | ShiftStyle::UXTX | ShiftStyle::SXTX => true,
                // A number of 32 bits has zeros above.
                ShiftStyle::UXTW => size == SizeCode::W,
                _ => false,
            };
            match by {
                _ if !wide => Source::Other,
                0 => Source::Register(number),
                _ => Source::Shifted(number, by),
            }
        }
        other => register(other).map_or(Source::Other, |(number, _)| Source::Register(number)),
    }
}

/// The place of a memory operand; `None` for one that is counted from the instruction.
pub(super) fn place(operand: Operand) -> Option<Place> {
    let of = |base: u16, offset, index, base_after| Place { base: usize::from(base) & 31, offset, index, base_after };
    match operand {
        Operand::RegPreIndex(base, offset, back) => {
            let offset = i64::from(offset);
            Some(of(base, offset, None, back.then_some(offset)))
        }
        Operand::RegPostIndex(base, offset) => Some(of(base, 0, None, Some(i64::from(offset)))),
        Operand::RegRegOffset(base, index, size, style, by) => {
            let shift = if style == ShiftStyle::SXTW { ShiftStyle::SXTB } else { style };
            let index = source(Operand::RegShift(shift, by, size, index));
            Some(of(base, 0, Some(index), None))
        }
        _ => None,
    }
}

/// Bytes that a load or store of this name moves, where its register does not say.
fn narrow(opcode: Opcode) -> Option<usize> {
    use Opcode::*;
    match opcode {
        LDRB | LDRSB | LDURB | LDURSB | LDTRB | LDTRSB | LDARB | LDLARB | LDAPRB | LDAPURB | LDAPURSB | LDXRB
        | LDAXRB | STRB | STURB | STTRB | STLRB | STLLRB | STLURB | STXRB | STLXRB => Some(1),
        LDRH | LDRSH | LDURH | LDURSH | LDTRH | LDTRSH | LDARH | LDLARH | LDAPRH | LDAPURH | LDAPURSH | LDXRH
        | LDAXRH | STRH | STURH | STTRH | STLRH | STLLRH | STLURH | STXRH | STLXRH => Some(2),
        LDRSW | LDURSW | LDTRSW | LDAPURSW => Some(4),
        _ => None,
    }
}

/// What a load does: register and its bytes, bytes that are read, whether they are extended with their sign.
pub(super) fn load(own: &Instruction) -> Option<(usize, usize, usize, bool)> {
    use Opcode::*;
    let signed = matches!(
        own.opcode,
        LDRSB | LDURSB | LDTRSB | LDAPURSB | LDRSH | LDURSH | LDTRSH | LDAPURSH | LDRSW | LDURSW | LDTRSW | LDAPURSW
    );
    let plain = matches!(
        own.opcode,
        LDR | LDRB
            | LDRH
            | LDUR
            | LDURB
            | LDURH
            | LDTR
            | LDTRB
            | LDTRH
            | LDAR
            | LDARB
            | LDARH
            | LDLAR
            | LDLARB
            | LDLARH
            | LDAPR
            | LDAPRB
            | LDAPRH
            | LDAPUR
            | LDAPURB
            | LDAPURH
            | LDXR
            | LDXRB
            | LDXRH
            | LDAXR
            | LDAXRB
            | LDAXRH
    );
    let (number, wide) = register(own.operands[0]).filter(|_| signed || plain)?;
    Some((number, wide, narrow(own.opcode).unwrap_or(wide), signed))
}

/// What a store writes: register (`None` for one that is no general register), bytes.
pub(super) fn store(own: &Instruction) -> Option<(Option<usize>, usize)> {
    use Opcode::*;
    let plain = matches!(
        own.opcode,
        STR | STRB
            | STRH
            | STUR
            | STURB
            | STURH
            | STTR
            | STTRB
            | STTRH
            | STLR
            | STLRB
            | STLRH
            | STLLR
            | STLLRB
            | STLLRH
            | STLUR
            | STLURB
            | STLURH
    );
    if !plain {
        return None;
    }
    match own.operands[0] {
        Operand::SIMDRegister(size, _) => Some((None, vector_bytes(size))),
        operand => register(operand).map(|(number, wide)| (Some(number), narrow(own.opcode).unwrap_or(wide))),
    }
}

/// Bytes of a register for floating point numbers and vectors.
pub(super) fn vector_bytes(size: yaxpeax_arm::armv8::a64::SIMDSizeCode) -> usize {
    use yaxpeax_arm::armv8::a64::SIMDSizeCode::*;
    match size {
        B => 1,
        H => 2,
        S => 4,
        D => 8,
        Q => 16,
    }
}

/// The exclusive loads and stores.
pub(super) fn is_exclusive_load(opcode: Opcode) -> bool {
    use Opcode::*;
    matches!(opcode, LDXR | LDXRB | LDXRH | LDAXR | LDAXRB | LDAXRH)
}

/// Status register, stored register and bytes of an exclusive store.
pub(super) fn exclusive_store(own: &Instruction) -> Option<(usize, usize, usize)> {
    use Opcode::*;
    if !matches!(own.opcode, STXR | STXRB | STXRH | STLXR | STLXRB | STLXRH) {
        return None;
    }
    let (status, _) = register(own.operands[0])?;
    let (value, wide) = register(own.operands[1])?;
    Some((status, value, narrow(own.opcode).unwrap_or(wide)))
}

/// Condition codes of branches: 0 is `eq`, 1 `ne`, 2 `hs`, 3 `lo` (Arm ARM, C1.2.4).
pub(super) const EQUAL: u8 = 0;
pub(super) const NOT_EQUAL: u8 = 1;
