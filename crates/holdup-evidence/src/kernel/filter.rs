//! Which lines of code any section's entry touches: the programs ask it before they search.

use crate::kernel::layout::{Entry, FILTER_BITS, LINE_BYTES_LOG2, SectionFilter};

/// The bit of an address (`sections.bpf.h:may_have_entry`): Fibonacci hashing, so that code that lies together, and code
/// of libraries at other places, share few.
fn bit_of(line: u64) -> usize {
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - FILTER_BITS.ilog2())) as usize
}

/// The bits of all lines of these entries.
pub(crate) fn of(entries: &[Entry]) -> SectionFilter {
    let mut lines = SectionFilter { bits: [0; FILTER_BITS / 64] };
    for entry in entries.iter().filter(|entry| entry.begin < entry.end) {
        let (first, last) = (entry.begin >> LINE_BYTES_LOG2, (entry.end - 1) >> LINE_BYTES_LOG2);
        if last - first >= FILTER_BITS as u64 {
            return SectionFilter { bits: [u64::MAX; FILTER_BITS / 64] };
        }
        for line in first..=last {
            let bit = bit_of(line);
            lines.bits[bit / 64] |= 1 << (bit % 64);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::layout::zeroed;

    fn entry(begin: u64, end: u64) -> Entry {
        Entry { begin, end, ..zeroed() }
    }

    fn has(lines: &SectionFilter, ip: u64) -> bool {
        let bit = bit_of(ip >> LINE_BYTES_LOG2);
        lines.bits[bit / 64] >> (bit % 64) & 1 == 1
    }

    fn set(lines: &SectionFilter) -> u32 {
        lines.bits.iter().map(|word| word.count_ones()).sum()
    }

    #[test]
    fn every_address_of_an_entry_is_found_and_few_others_are() {
        let entries = [entry(0x5555_0000_1030, 0x5555_0000_1041), entry(0x7fff_f7a0_0000, 0x7fff_f7a0_0100)];
        let lines = of(&entries);
        assert!(entries.iter().all(|e| (e.begin..e.end).all(|ip| has(&lines, ip))));
        assert_eq!(set(&lines), 6);
        assert!(!has(&lines, 0x5555_0000_0fff) && !has(&lines, 0x5555_0000_1080));
    }

    #[test]
    fn an_entry_of_more_lines_than_there_are_bits_sets_them_all() {
        let most = (FILTER_BITS as u64) << LINE_BYTES_LOG2;
        assert_eq!(set(&of(&[entry(0, most + 1)])), FILTER_BITS as u32);
        assert_eq!(set(&of(&[entry(0, u64::MAX)])), FILTER_BITS as u32);
        assert_eq!(set(&of(&[entry(9, 9)])), 0);
    }
}
