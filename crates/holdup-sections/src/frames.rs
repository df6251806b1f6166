//! Call frame information: pieces of functions, and where the return address lies at each instruction.
//!
//! DWARF 5 section 6.4. The canonical frame address is the stack pointer before the call. On x86-64 the return address lies 8
//! bytes below it; on AArch64 a call leaves it in x30.

use crate::arch::Unwind;
use gimli::{BaseAddresses, CfaRule, EhFrame, EndianSlice, LittleEndian, UnwindContext, UnwindSection};
use holdup_model::sections::CalleeRange;
use std::collections::BTreeMap;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The `.eh_frame` section of a file.
pub(crate) struct Frames<'a> {
    registers: &'static Unwind,
    section: EhFrame<Slice<'a>>,
    bases: BaseAddresses,
    /// Begin of a piece of code → its end, and the offset of its description in the section.
    found: BTreeMap<u64, (u64, usize)>,
}

/// From `begin` on the canonical frame address is `register + offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) frame: Frame,
    /// Where the return address is, from the canonical frame address; `None` while it is in its register.
    pub(crate) return_address: Option<i64>,
    /// As [`holdup_model::sections::CalleeRange::saved`] has it.
    pub(crate) saved: [u8; 6],
}

/// Where the canonical frame address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// At the stack pointer plus bytes.
    Stack(i64),
    /// At the frame pointer plus bytes.
    Base(i64),
    /// By an expression or another register.
    Other,
}

/// More rows than this has no function.
const MOST_ROWS: usize = 20_000;

impl<'a> Frames<'a> {
    /// Reads the section (address and bytes) up to the first damage.
    pub(crate) fn read(section: Option<(u64, &'a [u8])>, text: u64, registers: &'static Unwind) -> Self {
        let (address, bytes) = section.unwrap_or((0, &[]));
        let mut frame = EhFrame::new(bytes, LittleEndian);
        frame.set_address_size(8);
        frame.set_vendor(registers.vendor);
        let bases = BaseAddresses::default().set_eh_frame(address).set_text(text);
        let mut found = BTreeMap::new();
        let mut common = BTreeMap::new();
        let mut entries = frame.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let gimli::CieOrFde::Fde(partial) = entry else { continue };
            let description = partial.parse(|section, bases, offset| {
                if let Some(known) = common.get(&offset.0) {
                    return Ok(gimli::CommonInformationEntry::clone(known));
                }
                let cie = section.cie_from_offset(bases, offset)?;
                common.insert(offset.0, cie.clone());
                Ok(cie)
            });
            let Ok(description) = description else { continue };
            let begin = description.initial_address();
            let end = begin.saturating_add(description.len());
            if begin != 0 && end > begin {
                found.insert(begin, (end, description.offset()));
            }
        }
        Frames { registers, section: frame, bases, found }
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Begin and end of every described piece of code.
    pub(crate) fn functions(&self) -> impl Iterator<Item = (u64, u64)> {
        self.found.iter().map(|(begin, (end, _))| (*begin, *end))
    }

    /// The rows of the piece that begins at an address; none when it is not described.
    pub(crate) fn rows(&self, begin: u64) -> Vec<Row> {
        let mut rows = Vec::new();
        let Some((_, offset)) = self.found.get(&begin) else { return rows };
        let description =
            self.section.fde_from_offset(&self.bases, gimli::EhFrameOffset(*offset), |section, bases, at| {
                section.cie_from_offset(bases, at)
            });
        let Ok(description) = description else { return rows };
        let mut context = UnwindContext::new();
        let Ok(mut table) = description.rows(&self.section, &self.bases, &mut context) else { return rows };
        while let Ok(Some(row)) = table.next_row() {
            let Unwind { stack, frame, saved, return_address, .. } = *self.registers;
            let frame = match row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } if *register == stack => Frame::Stack(*offset),
                CfaRule::RegisterAndOffset { register, offset } if *register == frame => Frame::Base(*offset),
                _ => Frame::Other,
            };
            let saved = saved.map(|register| match row.register(register) {
                Some(gimli::RegisterRule::Offset(bytes)) if bytes % 8 == 0 => {
                    u8::try_from(bytes / -8).unwrap_or(CalleeRange::ELSEWHERE)
                }
                _ => 0,
            });
            let return_address = match row.register(return_address) {
                Some(gimli::RegisterRule::Offset(bytes)) => Some(bytes),
                _ => None,
            };
            rows.push(Row { begin: row.start_address(), end: row.end_address(), frame, return_address, saved });
            if rows.len() >= MOST_ROWS {
                break;
            }
        }
        rows
    }
}
