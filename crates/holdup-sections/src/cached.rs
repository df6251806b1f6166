//! The form in which analyses are kept from one run to the next: what a file of the cache holds.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `hmap` and the number of this layout, little-endian |
//! | 4 | CRC-32 (the one of zlib) of the body, little-endian |
//! | … | body: [`CachedAnalysis`] behind the version of the analyser, in CBOR |

use crate::Callees;
use holdup_model::sections::{CalleeRange, Condition, SectionMap, WordBase};
use serde::{Deserialize, Serialize};

/// The version of the analyser: maps that another one made are not used.
pub const ANALYSER: &str = env!("HOLDUP_ANALYSER");

/// Longer files are not read, and not written, bytes. The map of a PostgreSQL server has 130 kB.
pub const MOST_BYTES: usize = 8 << 20;

const HEAD: [u8; 8] = *b"hmap\x02\0\0\0";

/// What is known of a binary, with what was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedAnalysis {
    /// The binary's build id, hexadecimal.
    pub build_id: String,
    /// True if its sections were looked for, and not what runs of it inside those of others.
    pub is_program: bool,
    /// The functions that were named.
    pub functions: Vec<String>,
    /// Its code: address, place in the file, size, bytes.
    pub segments: Vec<(u64, u64, u64)>,
    /// Its sections.
    pub map: SectionMap,
    /// What of it runs inside sections of others.
    pub callees: Callees,
}

impl CachedAnalysis {
    /// The bytes of a file; `None` where they would be too many.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        ciborium::into_writer(&(ANALYSER, self), &mut body).ok()?;
        let mut bytes = HEAD.to_vec();
        bytes.extend(crc32fast::hash(&body).to_le_bytes());
        bytes.extend(body);
        (bytes.len() <= MOST_BYTES).then_some(bytes)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// Why they cannot be used: another layout, another analyser, damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MOST_BYTES {
            return Err(format!("it has {} bytes, more than {MOST_BYTES}", bytes.len()));
        }
        let rest = bytes.strip_prefix(&HEAD).ok_or("it has another layout")?;
        let (sum, body) = rest.split_first_chunk::<4>().ok_or("it is cut")?;
        if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
            return Err("its sum does not fit".to_owned());
        }
        let mut left = body;
        let (analyser, kept): (String, CachedAnalysis) =
            ciborium::from_reader(&mut left).map_err(|e| format!("it is damaged: {e}"))?;
        match kept.fault() {
            _ if analyser != ANALYSER => Err(format!("the analyser {analyser} made it, this one is {ANALYSER}")),
            _ if !left.is_empty() => Err(format!("{} bytes stand behind it", left.len())),
            Some(why) => Err(format!("it is damaged: {why}")),
            None => Ok(kept),
        }
    }

    /// What an analysis cannot have found.
    fn fault(&self) -> Option<&'static str> {
        let (map, callees) = (&self.map, &self.callees);
        let flags = map.machine.flags();
        let known = |condition: &Condition| condition.register <= flags;
        let sound = |all: &[CalleeRange]| {
            all.is_sorted_by_key(|callee| callee.begin) && all.iter().all(|callee| callee.begin < callee.end)
        };
        let ids = [&map.build_id, &callees.build_id];
        if ids.iter().any(|id| !id.is_empty() && **id != self.build_id) {
            return Some("its parts are of several binaries");
        }
        if !map.ranges.iter().all(|r| r.begin < r.end && usize::from(r.section) < map.sections.len()) {
            return Some("a range is empty or of no section");
        }
        if !map.ranges.iter().filter_map(|r| r.when.as_ref()).all(known) {
            return Some("a condition is of no register");
        }
        let is_register = |base| !matches!(base, WordBase::Register(number) if number >= flags);
        if !map.ranges.iter().filter_map(|r| r.word).all(|word| is_register(word.base)) {
            return Some("a lock is at no register");
        }
        if !map.ranges.is_sorted_by_key(|range| range.begin) || !sound(&map.callees) || !sound(&callees.ranges) {
            return Some("its ranges are out of order");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::sections::{LockWord, Machine, ReturnAddress, Section, SectionRange, SectionRole, SectionSource};
    use proptest::prelude::*;

    fn sample() -> CachedAnalysis {
        let section = Section { name: "f".to_owned(), function: Some("f".to_owned()), source: SectionSource::Shipped };
        let when = Some(Condition { register: 16, mask: 64, value: 64, differs: false });
        let range = |begin, when| SectionRange {
            begin,
            end: begin + 9,
            section: 0,
            role: SectionRole::Holder,
            when,
            word: Some(LockWord { base: WordBase::Register(4), offset: -8, load: Some(64) }),
        };
        let callee = CalleeRange {
            begin: 7,
            end: 8,
            return_address_bytes: -8,
            by_frame_pointer: true,
            saved: [0; 6],
            return_address: ReturnAddress::Stack,
            frame_bytes: 0,
        };
        CachedAnalysis {
            build_id: "00ff".to_owned(),
            is_program: true,
            functions: vec!["f".to_owned()],
            segments: vec![(0x1000, 0x1000, 0x200)],
            map: SectionMap {
                build_id: "00ff".to_owned(),
                machine: Machine::X86_64,
                sections: vec![section],
                ranges: vec![range(0x1000, None), range(0x1009, when)],
                callees: vec![callee],
                releases: vec![holdup_model::sections::ReleasedAt {
                    begin: 0x1000,
                    end: 0x1009,
                    section: 0,
                    at: vec![0x1007],
                }],
                imports: vec!["select".to_owned()],
                notes: vec!["a note".to_owned()],
            },
            callees: Callees::default(),
        }
    }

    /// The bytes of a body with the sum that fits it.
    fn summed(body: &[u8]) -> Vec<u8> {
        [&HEAD[..], &crc32fast::hash(body).to_le_bytes(), body].concat()
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let kept = sample();
        assert_eq!(CachedAnalysis::decode(&kept.encode().expect("it is small")), Ok(kept));
    }

    #[test]
    fn another_analyser_s_map_is_refused() {
        let mut body = Vec::new();
        ciborium::into_writer(&("0.0.0-0", &sample()), &mut body).expect("in memory");
        let why = CachedAnalysis::decode(&summed(&body)).expect_err("it is another's");
        assert!(why.contains("0.0.0-0") && why.contains(ANALYSER), "{why}");
    }

    #[test]
    fn what_no_analysis_finds_is_refused() {
        let spoil: [fn(&mut CachedAnalysis); 6] = [
            |k| k.map.ranges[0].section = 1,
            |k| k.map.ranges[0].end = 0x1000,
            |k| k.map.ranges.swap(0, 1),
            |k| k.map.callees[0].end = 7,
            |k| k.map.build_id = "ff00".to_owned(),
            |k| k.map.ranges[1].when = Some(Condition { register: 17, mask: 1, value: 1, differs: false }),
        ];
        for (number, spoil) in spoil.iter().enumerate() {
            let mut kept = sample();
            spoil(&mut kept);
            assert!(CachedAnalysis::decode(&kept.encode().expect("it is small")).is_err(), "{number}");
        }
    }

    #[test]
    fn a_cut_or_longer_file_is_refused() {
        let bytes = sample().encode().expect("it is small");
        for cut in 0..bytes.len() {
            assert!(CachedAnalysis::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        let mut body = bytes[12..].to_vec();
        body.push(0);
        assert!(CachedAnalysis::decode(&summed(&body)).is_err(), "a byte more");
    }

    proptest! {
        #[test]
        fn a_changed_byte_is_noticed(at in any::<prop::sample::Index>(), by in 1..=255_u8) {
            let mut bytes = sample().encode().expect("it is small");
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            prop_assert!(CachedAnalysis::decode(&bytes).is_err());
        }

        /// Also where the sum was made to fit.
        #[test]
        fn any_body_is_read_or_refused(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut body = sample().encode().expect("it is small").split_off(12);
            for (at, value) in changes {
                let at = at.index(body.len());
                body[at] = value;
            }
            if let Ok(kept) = CachedAnalysis::decode(&summed(&body)) {
                prop_assert!(kept.fault().is_none());
            }
        }
    }
}
