//! What a segment can be marked as: Wireshark 4.6's marks under its names.

pub use holdup_model::captures::Tells;

/// Defines the kinds, their names and titles, in the order in which reports have them.
macro_rules! kinds {
    ($($kind:ident $field:literal $title:literal $tells:ident;)*) => {
        /// A mark of a segment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = concat!("`", $field, "`: ", $title, ".")] $kind,)*
        }

        impl Kind {
            /// All of them, in the order in which reports have them.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];

            /// Wireshark's field for it.
            pub fn field(self) -> &'static str {
                match self { $(Kind::$kind => $field,)* }
            }

            /// Its title.
            pub fn title(self) -> &'static str {
                match self { $(Kind::$kind => $title,)* }
            }

            /// What more of it tells.
            pub fn tells(self) -> Tells {
                match self { $(Kind::$kind => Tells::$tells,)* }
            }
        }
    };
}

kinds! {
    Retransmission "tcp.analysis.retransmission" "(suspected) retransmission" Trouble;
    FastRetransmission "tcp.analysis.fast_retransmission" "(suspected) fast retransmission" Trouble;
    SpuriousRetransmission "tcp.analysis.spurious_retransmission" "(suspected) spurious retransmission" Trouble;
    OutOfOrder "tcp.analysis.out_of_order" "(suspected) out-of-order segment" Capture;
    LostSegment "tcp.analysis.lost_segment" "previous segment(s) not captured" Capture;
    AckLostSegment "tcp.analysis.ack_lost_segment" "ACKed segment that wasn't captured" Capture;
    DuplicateAck "tcp.analysis.duplicate_ack" "duplicate ACK" Trouble;
    DuplicateSack "tcp.options.sack.dsack" "D-SACK sequence" Trouble;
    PartialAck "tcp.analysis.partial_ack" "partial acknowledgement of a segment" Trouble;
    AmbiguousAck "tcp.analysis.ambiguous_ack" "ambiguous ACK (Karn)" Trouble;
    KeepAlive "tcp.analysis.keep_alive" "keep-alive" Course;
    KeepAliveAck "tcp.analysis.keep_alive_ack" "ACK to a keep-alive" Course;
    ZeroWindow "tcp.analysis.zero_window" "zero window" Trouble;
    ZeroWindowProbe "tcp.analysis.zero_window_probe" "zero window probe" Trouble;
    ZeroWindowProbeAck "tcp.analysis.zero_window_probe_ack" "ACK to a zero window probe" Trouble;
    WindowFull "tcp.analysis.window_full" "window full" Trouble;
    WindowUpdate "tcp.analysis.window_update" "window update" Course;
    ReusedPorts "tcp.analysis.reused_ports" "ports of an earlier connection" Course;
    Reset "tcp.connection.rst" "connection reset (RST)" Trouble;
    MssExceeded "tcp.options.mss.exceeded" "length exceeds MSS (TSO, GRO)" Capture;
    Syn "tcp.connection.syn" "connection request (SYN)" Course;
    SynAck "tcp.connection.synack" "connection accepted (SYN+ACK)" Course;
    Fin "tcp.connection.fin" "connection finish (FIN)" Course;
    FinActive "tcp.connection.fin_active" "first FIN of a connection" Course;
    FinPassive "tcp.connection.fin_passive" "second FIN of a connection" Course;
    MssAbsent "tcp.options.mss.absent" "SYN without MSS" Course;
    MssPresent "tcp.options.mss.present" "MSS outside of a SYN" Course;
    SackPermittedAbsent "tcp.options.sack_perm.absent" "SYN without SACK permitted" Course;
    SackPermittedPresent "tcp.options.sack_perm.present" "SACK permitted outside of a SYN" Course;
    FastOpenSyn "tcp.analysis.tfo_syn" "SYN with a cookie of Fast Open" Course;
    FastOpenAck "tcp.analysis.tfo_ack" "SYN+ACK that takes Fast Open's data" Course;
    FastOpenIgnored "tcp.analysis.tfo_ignored" "SYN+ACK that ignores Fast Open's data" Course;
    ShortSegment "tcp.short_segment" "short segment" Capture;
    BogusHeaderLength "tcp.bogus_header_length" "header length below 20 bytes" Capture;
    AckNonzero "tcp.ack.nonzero" "acknowledgement number without ACK" Course;
}

#[cfg(test)]
mod tests {
    use super::Kind;
    use std::collections::BTreeSet;

    #[test]
    fn fields_and_titles_are_unique() {
        for of in [Kind::field, Kind::title] {
            let names: BTreeSet<&str> = Kind::ALL.iter().map(|kind| of(*kind)).collect();
            assert_eq!(names.len(), Kind::ALL.len());
        }
    }
}
