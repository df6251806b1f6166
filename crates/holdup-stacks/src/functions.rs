//! Where functions begin and end, by their unwind information.

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection as _};

/// The ranges of code that `.eh_frame` describes, sorted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Functions {
    ranges: Vec<(u64, u64)>,
}

impl Functions {
    /// Reads them up to the first entry that cannot be understood.
    pub(crate) fn of(eh_frame: &[u8], bases: &BaseAddresses) -> Self {
        let mut section = EhFrame::new(eh_frame, LittleEndian);
        section.set_address_size(8);
        let mut entries = section.entries(bases);
        let mut ranges = Vec::new();
        let mut cie = None;
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let parsed = partial.parse(|section, bases, offset| match &cie {
                Some((known, parsed)) if *known == offset => Ok(Clone::clone(parsed)),
                _ => {
                    let parsed = section.cie_from_offset(bases, offset)?;
                    cie = Some((offset, parsed.clone()));
                    Ok(parsed)
                }
            });
            let Ok(fde) = parsed else { continue };
            let (begin, length) = (fde.initial_address(), fde.len());
            // The linker leaves entries of discarded functions at address 0.
            if let Some(end) = begin.checked_add(length)
                && begin != 0
                && length != 0
            {
                ranges.push((begin, end));
            }
        }
        ranges.sort_unstable();
        ranges.dedup();
        ranges.shrink_to_fit();
        Functions { ranges }
    }

    /// The function that covers an address: its begin and its end.
    pub(crate) fn find(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.ranges.partition_point(|(begin, _)| *begin <= address);
        let range = self.ranges.get(after.checked_sub(1)?)?;
        (address < range.1).then_some(*range)
    }

    /// Memory, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.ranges.capacity() * size_of::<(u64, u64)>()) as u64
    }
}
