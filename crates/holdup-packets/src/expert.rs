//! Parses the output of `tshark -q -z expert`: counts without totals.

use crate::kinds::Kind;
use holdup_model::Problem;

/// The size limit of a text, bytes.
pub const MOST_BYTES: usize = 16 << 20;

/// Counts of Wireshark's expert information about TCP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expert {
    /// The count of each kind; variants of a message (`Duplicate ACK (#3)`) are added up.
    pub kinds: Vec<(Kind, u64)>,
    /// Other messages about TCP.
    pub others: Vec<(String, u64)>,
    /// The number of messages about other protocols.
    pub of_other_protocols: u64,
}

/// How Wireshark 4.6's messages begin.
const WORDS: &[(&str, Kind)] = &[
    ("This frame is a (suspected) retransmission", Kind::Retransmission),
    ("This frame is a (suspected) fast retransmission", Kind::FastRetransmission),
    ("This frame is a (suspected) spurious retransmission", Kind::SpuriousRetransmission),
    ("This frame is a (suspected) out-of-order segment", Kind::OutOfOrder),
    ("Previous segment(s) not captured", Kind::LostSegment),
    ("ACKed segment that wasn't captured", Kind::AckLostSegment),
    ("Duplicate ACK", Kind::DuplicateAck),
    ("D-SACK Sequence", Kind::DuplicateSack),
    ("Partial Acknowledgement of a segment", Kind::PartialAck),
    ("Ambiguous ACK", Kind::AmbiguousAck),
    ("TCP keep-alive segment", Kind::KeepAlive),
    ("ACK to a TCP keep-alive segment", Kind::KeepAliveAck),
    ("TCP Zero Window segment", Kind::ZeroWindow),
    ("TCP Zero Window Probe", Kind::ZeroWindowProbe),
    ("ACK to a TCP Zero Window Probe", Kind::ZeroWindowProbeAck),
    ("TCP window specified by the receiver is now completely full", Kind::WindowFull),
    ("TCP window update", Kind::WindowUpdate),
    ("A new tcp session is started with the same ports", Kind::ReusedPorts),
    ("Connection reset (RST)", Kind::Reset),
    ("Connection establish request (SYN)", Kind::Syn),
    ("Connection establish acknowledge (SYN+ACK)", Kind::SynAck),
    ("Connection finish (FIN)", Kind::Fin),
    ("This frame initiates the connection closing", Kind::FinActive),
    ("This frame undergoes the connection closing", Kind::FinPassive),
    ("This packet's length exceeds MSS", Kind::MssExceeded),
    ("The SYN packet does not contain a MSS option", Kind::MssAbsent),
    ("The non-SYN packet does contain a MSS option", Kind::MssPresent),
    ("The SYN packet does not contain a SACK PERM option", Kind::SackPermittedAbsent),
    ("The non-SYN packet does contain a SACK PERM option", Kind::SackPermittedPresent),
    ("TCP SYN with TFO Cookie", Kind::FastOpenSyn),
    ("TCP SYN-ACK accepting TFO data", Kind::FastOpenAck),
    ("TCP SYN-ACK ignoring TFO data", Kind::FastOpenIgnored),
    ("Short segment", Kind::ShortSegment),
    ("Bogus TCP header length", Kind::BogusHeaderLength),
    ("The acknowledgment number field is nonzero", Kind::AckNonzero),
];

/// True if a text looks like this output.
pub fn is_expert(text: &str) -> bool {
    text.lines().take(200).any(is_head)
}

fn is_head(line: &str) -> bool {
    line.split_whitespace().eq(["Frequency", "Group", "Protocol", "Summary"])
}

fn kind_of(summary: &str) -> Option<Kind> {
    // The longest match, so that the order of the list does not matter.
    let fitting = WORDS.iter().filter(|(words, _)| summary.starts_with(words));
    fitting.max_by_key(|(words, _)| words.len()).map(|(_, kind)| *kind)
}

impl Expert {
    /// The count of a kind.
    pub fn get(&self, kind: Kind) -> u64 {
        self.kinds.iter().find(|(k, _)| *k == kind).map_or(0, |(_, n)| *n)
    }

    fn add(&mut self, summary: &str, n: u64) {
        let add = |sum: &mut u64| *sum = sum.saturating_add(n);
        match kind_of(summary) {
            Some(kind) => match self.kinds.iter_mut().find(|(k, _)| *k == kind) {
                Some((_, sum)) => add(sum),
                None => self.kinds.push((kind, n)),
            },
            None => match self.others.iter_mut().find(|(words, _)| words == summary) {
                Some((_, sum)) => add(sum),
                None => self.others.push((summary.to_owned(), n)),
            },
        }
    }
}

/// Parses the output. Lines without counts (titles, warnings of the dynamic linker) are skipped; the result has the order of
/// the text.
///
/// # Errors
/// When the text has no header line or is too long, or when a line below a header begins with a number that is not followed by
/// group, protocol and summary; with the number of the line.
pub fn read(text: &str) -> Result<Expert, Problem> {
    if text.len() > MOST_BYTES {
        return Err(Problem::usage("expert information", format!("it is longer than {} MiB", MOST_BYTES >> 20))
            .hint("give the output of `tshark -q -z expert -r FILE`"));
    }
    let mut expert = Expert::default();
    let mut below_head = false;
    for (line, number) in text.lines().zip(1_u32..) {
        if is_head(line) {
            below_head = true;
            continue;
        }
        let Some((first, rest)) = line.trim_start().split_once(' ').filter(|_| below_head) else { continue };
        if !first.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let wrong = |why: &str| {
            Problem::usage(format!("expert information, line {number}"), why)
                .hint("a line has a frequency, a group, a protocol and a summary, as `tshark -q -z expert` prints them")
        };
        let n: u64 = first.parse().map_err(|_| wrong("the frequency is too large"))?;
        let (_, rest) = rest.trim_start().split_once(' ').ok_or_else(|| wrong("there is no protocol"))?;
        let (protocol, summary) = rest.trim_start().split_once(' ').ok_or_else(|| wrong("there is no summary"))?;
        match protocol {
            "TCP" => expert.add(summary.trim(), n),
            _ => expert.of_other_protocols = expert.of_other_protocols.saturating_add(n),
        }
    }
    if !below_head {
        return Err(Problem::usage("expert information", "it has no line `Frequency Group Protocol Summary`")
            .hint("give the output of `tshark -q -z expert -r FILE`"));
    }
    Ok(expert)
}
