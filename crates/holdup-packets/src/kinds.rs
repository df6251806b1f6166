//! The catalogue of marks: Wireshark 4.6's, under its names.

pub use holdup_model::captures::MarkClass;

/// Defines kinds in the order of reports.
macro_rules! kinds {
    ($($kind:ident $field:literal $title:literal $class:ident;)*) => {
        /// A mark of a segment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = concat!("`", $field, "`: ", $title, ".")] $kind,)*
        }

        impl Kind {
            /// All kinds, in the order of reports.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];

            /// Wireshark's field.
            pub fn field(self) -> &'static str {
                match self { $(Kind::$kind => $field,)* }
            }

            /// Its title.
            pub fn title(self) -> &'static str {
                match self { $(Kind::$kind => $title,)* }
            }

            /// Whether more of it is worse.
            pub fn class(self) -> MarkClass {
                match self { $(Kind::$kind => MarkClass::$class,)* }
            }
        }
    };
}

kinds! {
    Retransmission "tcp.analysis.retransmission" "(suspected) retransmission" Trouble;
    FastRetransmission "tcp.analysis.fast_retransmission" "(suspected) fast retransmission" Trouble;
    SpuriousRetransmission "tcp.analysis.spurious_retransmission" "(suspected) spurious retransmission" Trouble;
    OutOfOrder "tcp.analysis.out_of_order" "(suspected) out-of-order segment" CaptureArtefact;
    LostSegment "tcp.analysis.lost_segment" "previous segment(s) not captured" CaptureArtefact;
    AckLostSegment "tcp.analysis.ack_lost_segment" "ACKed segment that wasn't captured" CaptureArtefact;
    DuplicateAck "tcp.analysis.duplicate_ack" "duplicate ACK" Trouble;
    DuplicateSack "tcp.options.sack.dsack" "D-SACK sequence" Trouble;
    PartialAck "tcp.analysis.partial_ack" "partial acknowledgement of a segment" Trouble;
    AmbiguousAck "tcp.analysis.ambiguous_ack" "ambiguous ACK (Karn)" Trouble;
    KeepAlive "tcp.analysis.keep_alive" "keep-alive" Normal;
    KeepAliveAck "tcp.analysis.keep_alive_ack" "ACK to a keep-alive" Normal;
    ZeroWindow "tcp.analysis.zero_window" "zero window" Trouble;
    ZeroWindowProbe "tcp.analysis.zero_window_probe" "zero window probe" Trouble;
    ZeroWindowProbeAck "tcp.analysis.zero_window_probe_ack" "ACK to a zero window probe" Trouble;
    WindowFull "tcp.analysis.window_full" "window full" Trouble;
    WindowUpdate "tcp.analysis.window_update" "window update" Normal;
    ReusedPorts "tcp.analysis.reused_ports" "ports of an earlier connection" Normal;
    Reset "tcp.connection.rst" "connection reset (RST)" Trouble;
    MssExceeded "tcp.options.mss.exceeded" "length exceeds MSS (TSO, GRO)" CaptureArtefact;
    Syn "tcp.connection.syn" "connection request (SYN)" Normal;
    SynAck "tcp.connection.synack" "connection accepted (SYN+ACK)" Normal;
    Fin "tcp.connection.fin" "connection finish (FIN)" Normal;
    FinActive "tcp.connection.fin_active" "first FIN of a connection" Normal;
    FinPassive "tcp.connection.fin_passive" "second FIN of a connection" Normal;
    MssAbsent "tcp.options.mss.absent" "SYN without MSS" Normal;
    MssPresent "tcp.options.mss.present" "MSS outside of a SYN" Normal;
    SackPermittedAbsent "tcp.options.sack_perm.absent" "SYN without SACK permitted" Normal;
    SackPermittedPresent "tcp.options.sack_perm.present" "SACK permitted outside of a SYN" Normal;
    FastOpenSyn "tcp.analysis.tfo_syn" "SYN with a cookie of Fast Open" Normal;
    FastOpenAck "tcp.analysis.tfo_ack" "SYN+ACK that takes Fast Open's data" Normal;
    FastOpenIgnored "tcp.analysis.tfo_ignored" "SYN+ACK that ignores Fast Open's data" Normal;
    ShortSegment "tcp.short_segment" "short segment" CaptureArtefact;
    BogusHeaderLength "tcp.bogus_header_length" "header length below 20 bytes" CaptureArtefact;
    AckNonzero "tcp.ack.nonzero" "acknowledgement number without ACK" Normal;
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
