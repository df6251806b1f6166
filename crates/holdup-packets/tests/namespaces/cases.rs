//! The runs: what the path does, what the ends do, and what must have come of it.

use crate::namespaces::net::{Side, Wiring};
use crate::namespaces::relay::Path;
use crate::namespaces::traffic;
use holdup_packets::kinds::Kind;
use std::io;

/// A run.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) wiring: Wiring,
    /// From the first side to the second, and back.
    pub(crate) paths: [Path; 2],
    pub(crate) traffic: fn(&[Side; 2]) -> io::Result<()>,
    /// What some capture of it must have, so that what was to be tried was tried.
    pub(crate) has: &'static [Kind],
    pub(crate) accuracy: Accuracy,
}

/// How much of what was done can be known from a whole capture on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accuracy {
    /// All.
    All,
    /// At least nine in ten, without the split of retransmissions: their arrival is unknown if D-SACKs are lost or merged, and
    /// copies in the first ticks are unrecognisable until the pace of the timestamps is known.
    Most,
    /// Nothing is compared: connections are many, or have no data to speak of.
    Nothing,
}

/// What every kernel has and every namespace may choose.
const RENO: (&str, &str) = ("tcp_congestion_control", "reno");
const PLAIN: Wiring = Wiring { is_v6: false, mtu: 1500, offload: false, sysctls: &[RENO] };
/// A path of 2 ms, after the handshake.
const CLEAN: Path = Path {
    delay_us: 2000,
    first_lost: 0,
    spared: 3,
    lost_percent: 0,
    twice_percent: 0,
    late_percent: 0,
    late_us: 0,
    congested_percent: 0,
};
const LOSSY: Path = Path { lost_percent: 3, ..CLEAN };
const TWICE: Path = Path { twice_percent: 5, ..CLEAN };
const LATE: Path = Path { late_percent: 3, late_us: 1000, ..CLEAN };
const BAD: Path = Path { lost_percent: 3, twice_percent: 3, late_percent: 3, late_us: 8000, ..CLEAN };
const NONE: Case =
    Case { name: "", wiring: PLAIN, paths: [CLEAN; 2], traffic: |_| Ok(()), has: &[], accuracy: Accuracy::All };

const MIB: usize = 1 << 20;
/// So far before the wrap that it comes in the middle of what is sent.
const BEFORE_THE_WRAP: u32 = u32::MAX - 400_000;

pub(crate) const CASES: &[Case] = &[
    Case { name: "clean", traffic: |sides| traffic::upload(sides, MIB, None), has: &[Kind::Syn, Kind::Fin], ..NONE },
    Case {
        name: "loss",
        paths: [LOSSY, CLEAN],
        traffic: |sides| traffic::upload(sides, MIB, None),
        has: &[Kind::Retransmission, Kind::FastRetransmission, Kind::DuplicateAck, Kind::LostSegment, Kind::OutOfOrder],
        ..NONE
    },
    Case {
        name: "duplication",
        paths: [TWICE, CLEAN],
        traffic: |sides| traffic::upload(sides, MIB, None),
        has: &[Kind::DuplicateSack],
        ..NONE
    },
    Case {
        name: "reordering",
        paths: [LATE, CLEAN],
        traffic: |sides| traffic::upload(sides, MIB, None),
        has: &[Kind::OutOfOrder, Kind::DuplicateAck],
        ..NONE
    },
    Case {
        name: "lost acknowledgements",
        paths: [CLEAN, Path { lost_percent: 30, ..CLEAN }],
        traffic: |sides| traffic::upload(sides, MIB, None),
        has: &[Kind::Syn],
        accuracy: Accuracy::Most,
        ..NONE
    },
    Case {
        name: "all of it, both ways",
        paths: [BAD; 2],
        traffic: |sides| traffic::both(sides, MIB / 2),
        has: &[Kind::Retransmission, Kind::SpuriousRetransmission, Kind::OutOfOrder, Kind::LostSegment],
        accuracy: Accuracy::Most,
        ..NONE
    },
    Case {
        name: "a handshake that is lost",
        paths: [Path { first_lost: 1, lost_percent: 10, ..CLEAN }; 2],
        traffic: |sides| traffic::requests(sides, 10),
        has: &[Kind::Retransmission],
        accuracy: Accuracy::Nothing,
        ..NONE
    },
    Case {
        name: "requests",
        paths: [BAD; 2],
        traffic: |sides| traffic::requests(sides, 150),
        has: &[Kind::Retransmission, Kind::SpuriousRetransmission],
        accuracy: Accuracy::Most,
        ..NONE
    },
    Case {
        name: "a closed window",
        paths: [CLEAN; 2],
        traffic: traffic::slow_reader,
        has: &[Kind::ZeroWindow, Kind::WindowFull, Kind::WindowUpdate, Kind::KeepAlive],
        ..NONE
    },
    Case {
        name: "a closed window and loss",
        paths: [LOSSY; 2],
        traffic: traffic::slow_reader,
        has: &[Kind::ZeroWindow, Kind::Retransmission],
        accuracy: Accuracy::Most,
        ..NONE
    },
    Case { name: "silence", traffic: traffic::silence, has: &[Kind::KeepAlive, Kind::KeepAliveAck], ..NONE },
    Case {
        name: "ports again",
        traffic: traffic::ports_again,
        has: &[Kind::ReusedPorts, Kind::Reset, Kind::FinActive, Kind::FinPassive],
        accuracy: Accuracy::Nothing,
        ..NONE
    },
    Case {
        name: "refused",
        traffic: traffic::refused,
        has: &[Kind::Reset, Kind::ReusedPorts],
        accuracy: Accuracy::Nothing,
        ..NONE
    },
    Case {
        name: "both directions",
        // Long enough that both have sent before either receives.
        paths: [Path { delay_us: 100_000, ..CLEAN }; 2],
        traffic: traffic::at_once,
        has: &[Kind::Syn, Kind::SynAck],
        accuracy: Accuracy::Nothing,
        ..NONE
    },
    Case {
        name: "fast open",
        wiring: Wiring { sysctls: &[RENO, ("tcp_fastopen", "3")], ..PLAIN },
        traffic: traffic::fast_open,
        has: &[Kind::FastOpenSyn, Kind::FastOpenAck],
        accuracy: Accuracy::Nothing,
        ..NONE
    },
    Case {
        name: "the numbers wrap",
        paths: [LOSSY, CLEAN],
        traffic: |sides| traffic::upload(sides, MIB, Some(BEFORE_THE_WRAP)),
        has: &[Kind::Retransmission],
        ..NONE
    },
    Case {
        name: "without timestamps",
        wiring: Wiring { sysctls: &[RENO, ("tcp_timestamps", "0")], ..PLAIN },
        paths: [BAD, CLEAN],
        traffic: |sides| traffic::upload(sides, MIB, None),
        has: &[Kind::Retransmission],
        accuracy: Accuracy::Most,
    },
    Case {
        name: "without SACK",
        wiring: Wiring { sysctls: &[RENO, ("tcp_sack", "0")], ..PLAIN },
        paths: [BAD, CLEAN],
        traffic: |sides| traffic::upload(sides, MIB, None),
        has: &[Kind::Retransmission, Kind::SackPermittedAbsent],
        accuracy: Accuracy::Most,
    },
    Case {
        name: "without anything",
        wiring: Wiring {
            sysctls: &[RENO, ("tcp_sack", "0"), ("tcp_timestamps", "0"), ("tcp_window_scaling", "0")],
            ..PLAIN
        },
        paths: [BAD, CLEAN],
        traffic: |sides| traffic::upload(sides, MIB, None),
        has: &[Kind::Retransmission],
        accuracy: Accuracy::Most,
    },
    Case {
        name: "explicit congestion",
        wiring: Wiring { sysctls: &[RENO, ("tcp_ecn", "1")], ..PLAIN },
        paths: [Path { congested_percent: 3, ..LOSSY }, CLEAN],
        traffic: |sides| traffic::upload(sides, MIB, None),
        has: &[Kind::Retransmission],
        accuracy: Accuracy::All,
    },
    Case {
        name: "IPv6",
        wiring: Wiring { is_v6: true, ..PLAIN },
        paths: [BAD, LOSSY],
        traffic: |sides| traffic::upload(sides, MIB, None),
        has: &[Kind::Retransmission],
        accuracy: Accuracy::Most,
    },
    Case {
        name: "small packets",
        wiring: Wiring { mtu: 576, ..PLAIN },
        paths: [BAD, LOSSY],
        traffic: |sides| traffic::upload(sides, MIB / 2, None),
        has: &[Kind::Retransmission],
        accuracy: Accuracy::Most,
    },
    Case {
        name: "super-packets",
        wiring: Wiring { offload: true, ..PLAIN },
        paths: [Path { lost_percent: 5, ..BAD }, CLEAN],
        traffic: |sides| traffic::upload(sides, 4 * MIB, None),
        has: &[Kind::Retransmission, Kind::MssExceeded],
        accuracy: Accuracy::Most,
    },
    Case {
        name: "super-packets of IPv6, both ways",
        wiring: Wiring { offload: true, is_v6: true, ..PLAIN },
        paths: [Path { lost_percent: 5, ..BAD }; 2],
        traffic: |sides| traffic::both(sides, 2 * MIB),
        has: &[Kind::Retransmission, Kind::MssExceeded],
        accuracy: Accuracy::Most,
    },
    Case {
        name: "the congestion control of this host",
        wiring: Wiring { sysctls: &[], ..PLAIN },
        paths: [BAD; 2],
        traffic: |sides| traffic::upload(sides, MIB, None),
        has: &[Kind::Retransmission],
        accuracy: Accuracy::Most,
    },
];
