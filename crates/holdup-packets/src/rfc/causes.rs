//! The catalogue of our own judgement.

macro_rules! causes {
    ($(#[doc = $of:literal] $name:ident { $($cause:ident $id:literal $title:literal $docs:literal;)* })*) => {$(
        #[doc = $of]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(#[doc = $docs] $cause,)*
        }

        impl $name {
            /// All, in the order of reports.
            pub const ALL: &[$name] = &[$($name::$cause,)*];

            /// Its stable name.
            pub fn id(self) -> &'static str {
                match self { $($name::$cause => $id,)* }
            }

            /// Its title.
            pub fn title(self) -> &'static str {
                match self { $($name::$cause => $title,)* }
            }
        }
    )*};
}

causes! {
    #[doc = "Why a data segment is out of sequence, or why bytes are missing."]
    Finding {
        LostBefore "lost_before" "lost before the capture, sent again" "Its bytes were not captured before, and it was sent after the bytes that follow: the first copy was lost before the capture point.";
        LostBehind "lost_behind" "lost behind the capture, sent again" "Its bytes were captured before, and nothing shows that the first copy had arrived.";
        Needless "needless" "sent again needlessly" "Its bytes had arrived: they were acknowledged before the retransmission, or a later D-SACK reports them (RFC 2883).";
        Reordered "reordered" "reordered" "Its bytes were not captured before, and it was sent before the bytes that follow: it was reordered on the path or in the capture.";
        Doubled "doubled" "the same packet twice" "Same bytes, timestamp and IP identification: the packet itself was captured twice, since no sender repeats these.";
        NotCaptured "not_captured" "arrived, but not captured" "Bytes that the receiver acknowledges and the capture does not have: the capture missed them.";
        Open "open" "missing, cause unknown" "Bytes that were neither captured nor acknowledged before the capture ends.";
    }
    #[doc = "Why a connection was idle."]
    Stall {
        Timeout "timeout" "retransmission timeout" "Data was not acknowledged until it was retransmitted (RFC 6298).";
        ZeroWindow "zero_window" "receiver's window closed" "The receiver advertised a window of 0.";
        WindowFull "window_full" "receiver's window full" "The receiver's window was used up.";
        Unacknowledged "unacknowledged" "waiting for an acknowledgement" "Data was in flight and unacknowledged: the network, the receiver, or a delayed ACK.";
        Idle "idle" "nothing to send" "Everything was acknowledged: the application had nothing to send.";
    }
}
