//! What `tshark -q -z expert` prints: how often Wireshark found what, without how much there was.

use crate::kinds::Kind;
use holdup_model::Problem;

/// The longest text that is read, bytes.
pub const MOST_BYTES: usize = 16 << 20;

/// Counts of Wireshark's expert information about TCP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expert {
    /// How often each kind was found; those of one kind with different words (`Duplicate ACK (#3)`) are added up.
    pub kinds: Vec<(Kind, u64)>,
    /// What else was found in TCP, in Wireshark's words.
    pub others: Vec<(String, u64)>,
    /// How much was found in other protocols.
    pub of_other_protocols: u64,
}

/// How Wireshark 4.6's words about a kind begin.
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

/// Whether a text looks like what tshark prints.
pub fn is_expert(text: &str) -> bool {
    text.lines().take(200).any(is_head)
}

/// The line above the counts of one severity.
fn is_head(line: &str) -> bool {
    line.split_whitespace().eq(["Frequency", "Group", "Protocol", "Summary"])
}

/// The kind that Wireshark's words are about.
fn kind_of(summary: &str) -> Option<Kind> {
    // The longest beginning that fits, so that no order of the list matters.
    let fitting = WORDS.iter().filter(|(words, _)| summary.starts_with(words));
    fitting.max_by_key(|(words, _)| words.len()).map(|(_, kind)| *kind)
}

impl Expert {
    /// How often a kind was found.
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

/// Reads what `tshark -q -z expert` prints. Lines that are no counts (titles, warnings of the dynamic linker) are passed
/// over; the order of the result is that of the text.
///
/// # Errors
/// When no head line is in it, when it is too long, or when a line below a head begins with a number that is not followed by
/// group, protocol and words; the line's number is named.
pub fn read(text: &str) -> Result<Expert, Problem> {
    if text.len() > MOST_BYTES {
        return Err(Problem::usage("expert information", format!("it is longer than {} MiB", MOST_BYTES >> 20))
            .hint("give what `tshark -q -z expert -r FILE` prints"));
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
        return Err(Problem::usage("expert information", "there is no line `Frequency Group Protocol Summary` in it")
            .hint("give what `tshark -q -z expert -r FILE` prints"));
    }
    Ok(expert)
}
