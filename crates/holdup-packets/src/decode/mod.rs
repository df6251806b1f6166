//! A frame becomes a segment of TCP.
//!
//! Headers are gone through one after another, in tunnels too, until TCP comes or something of which nothing is understood.
//! What is understood, and what becomes of a frame that was cut, is what tshark 4.6 does by its defaults; `tests/tshark.rs`
//! holds the two together.

mod fast;
mod internet;
mod link;
mod reassembly;
mod tcp;
mod tunnels;
mod view;

use crate::capture::{Frame, Link};
use crate::segment::{Address, Endpoint, Segment};
use internet::Internet;
use reassembly::Fragments;
use view::View;

/// How many headers a frame may have one after another; tshark's own limit.
const MOST_LAYERS: usize = 500;

/// How often a reassembled datagram may hold the last fragment of another one.
const MOST_NESTED: usize = 8;

/// What may be kept of datagrams that are not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Datagrams at once; the oldest goes.
    pub datagrams: usize,
    /// Fragments of one datagram; it is given up with more.
    pub fragments: usize,
    /// Frames from a datagram's first fragment until it is given up.
    pub age_frames: u32,
}

impl Default for Limits {
    /// At most 4,096 datagrams of 1,024 fragments, each for a million frames: a datagram of two fragments takes about 1.2 kB.
    fn default() -> Self {
        Limits { datagrams: 4096, fragments: 1024, age_frames: 1 << 20 }
    }
}

/// Why a frame has no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It holds something that is not TCP, or that is not understood.
    NotTcp,
    /// Too little of it was captured.
    Cut,
    /// A header cannot be as it is.
    Malformed,
    /// It is a part of a datagram, and others are missing.
    Fragment,
}

/// What a frame came to.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly every frame has a segment, and a box would be an allocation for each"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// A segment.
    Segment(Segment),
    /// None, and why.
    Other(Why),
}

/// What comes next in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Link(Link),
    /// What an EtherType names.
    EtherType(u16),
    /// IEEE 802.2.
    Llc,
    /// A frame of PPP.
    Ppp,
    Mpls,
    /// IP by its first four bits: what is named as IPv4 may be IPv6 too.
    Ip,
    /// What a protocol number of IP names.
    Protocol(u8),
    /// What a type of GRE names.
    Gre(u16),
    Ipv6,
}

/// What the headers so far tell.
#[derive(Debug, Clone, Copy)]
struct Context {
    from: Address,
    to: Address,
    ip_id: Option<u16>,
    vlan: u16,
    in_error: bool,
    is_fragment: bool,
}

/// What a header leads to.
type Step<'a> = Result<(Layer, View<'a>), Why>;

/// Turns frames into segments. It remembers fragments of IP until their datagram is whole.
#[derive(Debug)]
pub struct Decoder {
    /// `None` where others remember them.
    fragments: Option<Fragments>,
}

impl Decoder {
    /// A decoder that keeps fragments within limits.
    pub fn new(limits: Limits) -> Self {
        Decoder { fragments: Some(Fragments::new(limits)) }
    }

    /// A decoder of single frames, which knows nothing of those before: with it each fragment of IP is [`Why::Fragment`], and may
    /// be given to one that remembers them.
    pub fn of_single_frames() -> Self {
        Decoder { fragments: None }
    }

    /// How many fragments were dropped before their datagram was whole, those that still wait not among them.
    pub fn fragments_given_up(&self) -> u64 {
        self.fragments.as_ref().map_or(0, Fragments::given_up)
    }

    /// The segment of a frame. One in fragments belongs to the frame that made its datagram whole.
    #[inline(always)]
    pub fn decode(&mut self, frame: &Frame<'_>) -> Decoded {
        match fast::fast_frame(frame) {
            Some(fast) => fast.decoded(frame),
            // A copy, so that a usual frame need not be written to memory.
            None => self.decode_any(&{ *frame }),
        }
    }

    /// The ends of the only segment that a frame can have, without a look at all of it; `None` where there may be others, or where
    /// it may be a fragment.
    #[inline(always)]
    pub(crate) fn ends(frame: &Frame<'_>) -> Option<[Endpoint; 2]> {
        fast::ends(frame)
    }

    #[inline(never)]
    fn decode_any(&mut self, frame: &Frame<'_>) -> Decoded {
        let context = Context {
            from: Address::V4(0),
            to: Address::V4(0),
            ip_id: None,
            vlan: 0,
            in_error: false,
            is_fragment: false,
        };
        let view = View::new(frame.captured, frame.wire_bytes);
        match self.walk(frame, Layer::Link(frame.link), view, context, 0) {
            Ok(segment) => Decoded::Segment(segment),
            Err(why) => Decoded::Other(why),
        }
    }

    /// Goes through headers until TCP.
    fn walk(
        &mut self,
        frame: &Frame<'_>,
        mut layer: Layer,
        mut view: View<'_>,
        mut context: Context,
        nested: usize,
    ) -> Result<Segment, Why> {
        for _ in 0..MOST_LAYERS {
            (layer, view) = match layer {
                Layer::Link(link) => link::link(link, view)?,
                Layer::EtherType(kind) => link::ether_type(kind, view, &mut context)?,
                Layer::Llc => link::llc(view)?,
                Layer::Ppp => tunnels::ppp(view)?,
                Layer::Mpls => tunnels::mpls(view)?,
                Layer::Gre(kind) => tunnels::gre_type(kind, view)?,
                Layer::Protocol(tcp::PROTOCOL) => return tcp::segment(frame, view, &context),
                Layer::Protocol(protocol) => tunnels::protocol(protocol, view, &mut context)?,
                Layer::Ip | Layer::Ipv6 => {
                    let inside = match (layer, view.byte(0)? >> 4) {
                        (Layer::Ip, 4) => internet::v4(view, &mut context)?,
                        (_, 6) => internet::v6(view, &mut context)?,
                        _ => return Err(Why::Malformed),
                    };
                    match inside {
                        Internet::Inside(layer, view) => (layer, view),
                        Internet::Fragment(fragment) => {
                            let fragments = self.fragments.as_mut().ok_or(Why::Fragment)?;
                            let whole = fragments.add(&fragment, frame.number).ok_or(Why::Fragment)?;
                            if nested == MOST_NESTED {
                                return Err(Why::Malformed);
                            }
                            context.is_fragment = false;
                            let inside = internet::reassembled(&fragment, whole.view(), &mut context)?;
                            return self.walk(frame, inside.0, inside.1, context, nested + 1);
                        }
                    }
                }
            };
        }
        Err(Why::Malformed)
    }
}
