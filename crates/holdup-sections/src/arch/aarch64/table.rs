//! Addresses that pairs of instructions make, and jumps through tables.

use super::form::{Source, place, register, source};
use super::own;
use crate::arch::{Instruction, Instructions};
use crate::image::Image;
use yaxpeax_arm::armv8::a64::{Opcode, Operand, ShiftStyle};

type Inner = yaxpeax_arm::armv8::a64::Instruction;

/// Addresses that `adrp` and `add`, or `adr`, make.
pub(super) fn addresses(instructions: Instructions<'_>) -> Vec<u64> {
    let mut pages = [None::<u64>; 32];
    let mut all = Vec::new();
    for instruction in instructions {
        let Some(own) = own(&instruction) else { continue };
        let (ip, inner) = (instruction.ip, &own.inner);
        let Some((to, _)) = register(inner.operands[0]).filter(|(to, _)| *to < 32) else { continue };
        match (inner.opcode, inner.operands[1]) {
            (Opcode::ADRP, Operand::PCOffset(by)) => pages[to] = Some((ip & !0xfff).wrapping_add_signed(by)),
            (Opcode::ADR, Operand::PCOffset(by)) => all.push(ip.wrapping_add_signed(by)),
            (Opcode::ADD, from) => {
                let page = register(from).and_then(|(from, _)| *pages.get(from)?);
                if let (Some(page), Source::Number(by)) = (page, source(inner.operands[2])) {
                    all.push(page.wrapping_add(by));
                }
                pages[to] = None;
            }
            _ => {}
        }
    }
    all
}

/// More entries than this has no table.
const MOST_ENTRIES: u64 = 1024;

/// Where a jump through a table leads. GCC: `ldrb X, [T, index, uxtw]; adr B, base; add X, B, X, sxtb #2; br X`, with entries of
/// 1, 2 or 4 bytes that count instructions; Clang: the same with `lsl #2`, or entries of 4 bytes that count bytes from the table.
pub(super) fn targets(
    image: &Image<'_>,
    jump: &Instruction,
    before: &[&Instruction],
    inside: &dyn Fn(u64) -> bool,
) -> Option<Vec<u64>> {
    let all: Vec<(u64, Inner)> = before.iter().filter_map(|i| Some((i.ip, own(i)?.inner))).collect();
    let (target, _) = register(own(jump)?.inner.operands[0])?;
    let writes = |from: usize, number: usize| {
        let is_it = move |(_, inner): &(u64, Inner)| register(inner.operands[0]).is_some_and(|(to, _)| to == number);
        all.iter().skip(from).position(is_it).map(|at| at + from)
    };
    let added = writes(0, target)?;
    let (_, add) = all[added];
    if add.opcode != Opcode::ADD {
        return None;
    }
    let (base, _) = register(add.operands[1])?;
    let (entry, scale, is_signed) = match add.operands[2] {
        Operand::RegShift(style, by, _, entry) => {
            let is_signed = matches!(style, ShiftStyle::SXTB | ShiftStyle::SXTH | ShiftStyle::SXTW | ShiftStyle::SXTX);
            (usize::from(entry), u32::from(by), is_signed)
        }
        other => (register(other)?.0, 0, false),
    };
    let loaded = writes(added + 1, entry)?;
    let (_, load) = all[loaded];
    let (bytes, is_signed) = match load.opcode {
        Opcode::LDRB => (1, is_signed),
        Opcode::LDRH => (2, is_signed),
        Opcode::LDR => (4, is_signed),
        Opcode::LDRSW => (4, true),
        _ => return None,
    };
    let table = made(&all, loaded + 1, place(load.operands[1])?.base)?;
    let base = made(&all, added + 1, base)?;
    let bound = all.iter().skip(loaded).find_map(|(_, inner)| match source(inner.operands[2]) {
        Source::Number(most) if inner.opcode == Opcode::SUBS => Some(most),
        _ => None,
    });
    let most = bound.map_or(MOST_ENTRIES, |most| most.saturating_add(1).min(MOST_ENTRIES));
    let entry = |number: u64| {
        let entry = image.number(table.wrapping_add(bytes * number), bytes as usize)?;
        let unused = 64 - 8 * bytes as u32;
        let by = if is_signed { ((entry << unused) as i64) >> unused } else { entry as i64 };
        Some(base.wrapping_add_signed(by << scale))
    };
    Some((0..most).map_while(entry).take_while(|to| inside(*to)).collect())
}

/// The address that a register holds, by the instructions before; the last one comes first.
fn made(all: &[(u64, Inner)], from: usize, number: usize) -> Option<u64> {
    let is_it =
        |(_, (_, inner)): &(usize, &(u64, Inner))| register(inner.operands[0]).is_some_and(|(to, _)| to == number);
    let (at, (ip, inner)) = all.iter().enumerate().skip(from).find(is_it)?;
    match (inner.opcode, inner.operands[1]) {
        (Opcode::ADR, Operand::PCOffset(by)) => Some(ip.wrapping_add_signed(by)),
        (Opcode::ADRP, Operand::PCOffset(by)) => Some((ip & !0xfff).wrapping_add_signed(by)),
        (Opcode::ADD, page) => {
            let Source::Number(by) = source(inner.operands[2]) else { return None };
            Some(made(all, at + 1, register(page)?.0)?.wrapping_add(by))
        }
        _ => None,
    }
}
