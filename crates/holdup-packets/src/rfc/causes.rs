//! What our own judgement tells apart.

/// Defines the catalogue.
macro_rules! causes {
    ($(#[doc = $of:literal] $name:ident { $($cause:ident $id:literal $title:literal $docs:literal;)* })*) => {$(
        #[doc = $of]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(#[doc = $docs] $cause,)*
        }

        impl $name {
            /// All of them, in the order in which reports have them.
            pub const ALL: &[$name] = &[$($name::$cause,)*];

            /// Its name, stable for ever.
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
    #[doc = "What a data segment is that does not follow the one before, or what of a direction is missing."]
    Finding {
        LostBefore "lost_before" "lost before the capture, sent again" "Its bytes were never seen, and it was sent after those that follow them: the first copy was lost on its way here.";
        LostBehind "lost_behind" "lost behind the capture, sent again" "Its bytes were seen before, sent again, and nothing says that the first copy had arrived.";
        Needless "needless" "sent again needlessly" "Its bytes were seen before and had arrived: they were acknowledged when it was sent again, or its receiver says so later (D-SACK, RFC 2883).";
        Reordered "reordered" "reordered" "Its bytes were never seen, and it was sent before those that follow them: it was overtaken, on the way or in the capture.";
        Doubled "doubled" "the same packet twice" "Same bytes, same timestamp, same identification of IP: the packet itself was seen twice, which no sender does.";
        NotCaptured "not_captured" "arrived, but not captured" "Bytes that were never seen here and that their receiver acknowledges: the capture missed them.";
        Open "open" "missing, and nobody says why" "Bytes that were never seen and that nobody acknowledges before the capture ends.";
    }
    #[doc = "Why nothing was sent for a while."]
    Stall {
        Timeout "timeout" "retransmission timeout" "What was sent was not acknowledged, until it was sent again (RFC 6298).";
        ZeroWindow "zero_window" "receiver's window closed" "The receiver had no room: it told a window of 0.";
        WindowFull "window_full" "receiver's window full" "All that the receiver's window allows was under way.";
        Unacknowledged "unacknowledged" "waiting for an acknowledgement" "Data was under way, and nothing came back: the network, the receiver, or a delayed ACK.";
        Idle "idle" "nothing to send" "All was acknowledged: the application at either end had nothing to send.";
    }
}
