//! Decodes frames to TCP segments.
//!
//! Headers are decoded one after another, tunnels included, until TCP or an unsupported protocol. The supported protocols, and
//! the treatment of truncated frames, are those of tshark 4.6 with its defaults, which `tests/decode` verifies.

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

/// tshark's limit of headers in a frame.
const MOST_LAYERS: usize = 500;

/// Nesting of reassembled datagrams.
const MOST_NESTED: usize = 8;

/// Limits of reassembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Incomplete datagrams; the oldest is dropped.
    pub datagrams: usize,
    /// Fragments of one datagram; with more it is dropped.
    pub fragments: usize,
    /// The lifetime of an incomplete datagram, in frames.
    pub age_frames: u32,
}

impl Default for Limits {
    /// 4,096 datagrams of 1,024 fragments, each for a million frames: a datagram of two fragments takes about 1.2 kB.
    fn default() -> Self {
        Limits { datagrams: 4096, fragments: 1024, age_frames: 1 << 20 }
    }
}

/// The reason why a frame has no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Not TCP, or an unsupported protocol.
    NotTcp,
    /// Too little captured.
    Cut,
    /// A malformed header.
    Malformed,
    /// A fragment of an incomplete datagram.
    Fragment,
}

/// The result for a frame.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly every frame has a segment, and a box would be an allocation for each"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// A segment.
    Segment(Segment),
    /// None, with the reason.
    Other(Why),
}

/// The next header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Link(Link),
    EtherType(u16),
    /// IEEE 802.2.
    Llc,
    Ppp,
    Mpls,
    /// IP of the version in its first four bits.
    Ip,
    Protocol(u8),
    Gre(u16),
    Ipv6,
}

/// Collected from the headers so far.
#[derive(Debug, Clone, Copy)]
struct Context {
    from: Address,
    to: Address,
    ip_id: Option<u16>,
    vlan: u16,
    in_error: bool,
    is_fragment: bool,
}

type Step<'a> = Result<(Layer, View<'a>), Why>;

/// Decodes frames, and reassembles IP fragments.
#[derive(Debug)]
pub struct Decoder {
    /// `None` in a decoder of single frames.
    fragments: Option<Fragments>,
}

impl Decoder {
    /// A decoder that reassembles within limits.
    pub fn new(limits: Limits) -> Self {
        Decoder { fragments: Some(Fragments::new(limits)) }
    }

    /// A decoder without reassembly: each IP fragment is [`Why::Fragment`], for a decoder that reassembles.
    pub fn of_single_frames() -> Self {
        Decoder { fragments: None }
    }

    /// The number of fragments that were dropped before their datagram was complete.
    pub fn fragments_given_up(&self) -> u64 {
        self.fragments.as_ref().map_or(0, Fragments::given_up)
    }

    /// Decodes a frame. A reassembled segment belongs to the frame that completed its datagram.
    #[inline(always)]
    pub fn decode(&mut self, frame: &Frame<'_>) -> Decoded {
        match fast::fast_frame(frame) {
            Some(fast) => fast.decoded(frame),
            // A copy, so that the fast path keeps the frame in registers.
            None => self.decode_any(&{ *frame }),
        }
    }

    /// The endpoints of the only possible segment of a frame, without decoding all of it; `None` if there may be others or it
    /// may be a fragment.
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
