//! Which lines of code any section's entry touches: the programs ask it before they search.

use crate::kernel::layout::{Entry, LINES, SectionLines};

/// 64 bytes.
const LINE_BITS: u32 = 6;

/// The bit of an address (`sections.bpf.h:may_have_entry`): Fibonacci hashing, so that code that lies together, and code
/// of libraries at other places, share few.
fn bit_of(line: u64) -> usize {
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - LINES.ilog2())) as usize
}

/// The bits of all lines of these entries.
pub(crate) fn of(entries: &[Entry]) -> SectionLines {
    let mut lines = SectionLines([0; LINES / 64]);
    for entry in entries.iter().filter(|entry| entry.begin < entry.end) {
        let (first, last) = (entry.begin >> LINE_BITS, (entry.end - 1) >> LINE_BITS);
        if last - first >= LINES as u64 {
            return SectionLines([u64::MAX; LINES / 64]);
        }
        for line in first..=last {
            let bit = bit_of(line);
            lines.0[bit / 64] |= 1 << (bit % 64);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::layout::{ALWAYS, MEANINGS, Meaning};

    fn entry(begin: u64, end: u64) -> Entry {
        let meaning = Meaning { mask: 0, value: 0, section: 0, register: ALWAYS, held: 0, differs: 0, unused: [0; 2] };
        Entry { begin, end, meaning: [meaning; MEANINGS] }
    }

    fn has(lines: &SectionLines, ip: u64) -> bool {
        let bit = bit_of(ip >> LINE_BITS);
        lines.0[bit / 64] >> (bit % 64) & 1 == 1
    }

    fn set(lines: &SectionLines) -> u32 {
        lines.0.iter().map(|word| word.count_ones()).sum()
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
        let most = (LINES as u64) << LINE_BITS;
        assert_eq!(set(&of(&[entry(0, most + 1)])), LINES as u32);
        assert_eq!(set(&of(&[entry(0, u64::MAX)])), LINES as u32);
        assert_eq!(set(&of(&[entry(9, 9)])), 0);
    }
}
