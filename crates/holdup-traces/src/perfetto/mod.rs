//! Traces of Perfetto with events of the scheduler (protos/perfetto/trace of google/perfetto, v49).

mod events;
mod protobuf;

use crate::bytes::{Cursor, File};
use crate::event::{Event, What};
use crate::order::Order;
use crate::{Sink, TraceHead};
use events::Bundles;
use holdup_model::Problem;
use protobuf::{fields, number, varint};
use std::io::Read as _;

/// The field of a trace that a packet is, with its type.
const PACKET: u8 = 0x0a;

/// Fields of a packet.
mod packet {
    pub(super) const FTRACE: u32 = 1;
    pub(super) const PROCESSES: u32 = 2;
    pub(super) const SYSTEM: u32 = 45;
    pub(super) const COMPRESSED: u32 = 50;
}

/// A packet that is larger is not believed, bytes.
const LARGEST: u64 = 256 << 20;

/// True if the begin of a file is that of such a trace: packets, with fields that packets have.
pub(crate) fn is_it(head: &[u8]) -> bool {
    let (mut at, mut packets) = (0, 0);
    while packets < 4 {
        if head.get(at) != Some(&PACKET) {
            break;
        }
        at += 1;
        let Some(length) = varint(head, &mut at).and_then(|length| usize::try_from(length).ok()) else { return false };
        let rest = &head[at..];
        let packet = rest.get(..length).unwrap_or(rest);
        let is_whole = packet.len() == length;
        // Fields of a packet have numbers up to some hundreds.
        if is_whole
            && fields(packet)
                .any(|field| field.is_err() || matches!(field, Ok((number, _)) if number == 0 || number > 2000))
        {
            return false;
        }
        packets += 1;
        if !is_whole {
            return packets > 1 || fields(packet).next().is_some_and(|field| field.is_ok());
        }
        at += length;
    }
    packets > 0 && (packets == 4 || at >= head.len())
}

pub(crate) fn read(file: File<'_>, sink: Sink<'_>) -> Result<TraceHead, Problem> {
    let mut reader = Reader {
        head: TraceHead { format: "Perfetto".to_owned(), ..TraceHead::default() },
        order: Order::new(file),
        bundles: Bundles::default(),
    };
    let mut cursor = Cursor::new(file, 0, u64::MAX);
    while !cursor.is_at_end() {
        let at = cursor.at();
        let mut next = || number(|| cursor.u8("a packet"))?.ok_or_else(|| file.problem(at, "a number has no end"));
        if next()? != u64::from(PACKET) {
            return Err(file.problem(at, "there is no packet here: the trace is damaged"));
        }
        let length = next()?;
        if length > LARGEST {
            return Err(file.problem(at, format!("a packet of {length} bytes")));
        }
        let body = cursor.take(length as usize, "a packet")?;
        reader.packet(body, sink).map_err(|trouble| match trouble {
            Trouble::Damaged(place) => file.problem(at, format!("a packet is damaged at its byte {place}")),
            Trouble::Of(problem) => problem,
        })?;
    }
    reader.order.finish(sink)?;
    let mut head = reader.head;
    head.notes.extend(reader.order.note());
    Ok(head)
}

/// Why a packet cannot be read.
enum Trouble {
    /// A place in it is wrong.
    Damaged(usize),
    Of(Problem),
}

impl From<usize> for Trouble {
    fn from(place: usize) -> Self {
        Trouble::Damaged(place)
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        Trouble::Of(problem)
    }
}

struct Reader<'a> {
    head: TraceHead,
    order: Order<'a>,
    bundles: Bundles,
}

impl Reader<'_> {
    fn packet(&mut self, body: &[u8], sink: Sink<'_>) -> Result<(), Trouble> {
        for field in fields(body) {
            let (number, value) = field?;
            match number {
                packet::FTRACE => {
                    let order = &mut self.order;
                    self.bundles.read(value.bytes(), &mut |event| order.add(event, sink).map_err(Trouble::Of))?;
                }
                packet::PROCESSES => processes(value.bytes(), sink)?,
                packet::SYSTEM => self.system(value.bytes())?,
                packet::COMPRESSED => {
                    let mut bytes = Vec::new();
                    let mut decoder = flate2::read::ZlibDecoder::new(value.bytes()).take(LARGEST);
                    decoder.read_to_end(&mut bytes).map_err(|_| Trouble::Damaged(0))?;
                    for inner in fields(&bytes) {
                        let (number, value) = inner?;
                        // Compressed packets hold no compressed ones.
                        if number == 1
                            && !fields(value.bytes()).any(|field| matches!(field, Ok((packet::COMPRESSED, _))))
                        {
                            self.packet(value.bytes(), sink)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `utsname` is the first field, and the release its third; the number of CPUs is the eighth field.
    fn system(&mut self, body: &[u8]) -> Result<(), Trouble> {
        for field in fields(body) {
            let (number, value) = field?;
            match number {
                1 => {
                    for field in fields(value.bytes()) {
                        let (number, value) = field?;
                        if number == 3 {
                            self.head.kernel = Some(String::from_utf8_lossy(value.bytes()).into_owned());
                        }
                    }
                }
                8 => self.head.cpus = u32::try_from(value.number()).unwrap_or(0),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Which process a thread belongs to.
fn processes(body: &[u8], sink: Sink<'_>) -> Result<(), Trouble> {
    for field in fields(body) {
        let (number, value) = field?;
        if number != 2 {
            continue;
        }
        let (mut tid, mut pid) = (0, 0);
        for field in fields(value.bytes()) {
            match field? {
                (1, value) => tid = value.number() as u32,
                (3, value) => pid = value.number() as u32,
                _ => {}
            }
        }
        sink(Event { at_ns: 0, cpu: 0, what: What::Process { tid, pid } })?;
    }
    Ok(())
}
