//! Whether a flowop can do what it says with the connections that stand open before it.

use super::MOST_DATAGRAM_BYTES;
use super::faults::{Faults, Wrong, shown};
use super::model::{Flowop, FlowopKind, Note, Protocol, Size};
use std::collections::BTreeMap;

/// The connections that the strands of a group have opened so far, by `conn`.
#[derive(Debug, Default)]
pub(super) struct Opened {
    protocols: BTreeMap<u32, Option<Protocol>>,
    /// A flowop or an option could not be read, so that what is missing may be no fault.
    pub(super) uncertain: bool,
}

impl Opened {
    /// Checks a flowop that was read without faults and takes in what it opens.
    pub(super) fn check(&mut self, flowop: &Flowop, faults: &mut Faults, notes: &mut Vec<Note>) {
        let what = format!("flowop {}", shown(flowop.kind.name()));
        let mut wrong = |wrong| faults.add(flowop.line, what.as_str(), wrong);
        let o = &flowop.options;
        if flowop.kind.opens() {
            if o.remotehost.is_none() {
                wrong(Wrong::new("says no remotehost").hint("write options=\"remotehost=$h …\""));
            }
            if o.protocol.is_none() {
                wrong(Wrong::new("says no protocol").hint("write options=\"… protocol=tcp\""));
            }
            self.protocols.insert(o.conn, o.protocol);
        }
        if flowop.kind.uses_connection()
            && let Err(fault) = self.check_use(flowop)
        {
            wrong(fault);
        }
        if (flowop.kind.sends() || flowop.kind.receives()) && o.size.is_none() {
            wrong(Wrong::new("says no size").hint("write options=\"size=64k\""));
        }
        if flowop.kind.sends_files() && o.dir.is_none() {
            wrong(Wrong::new("says no dir").hint("write options=\"dir=…\" with the folder of the files"));
        }
        note_what_does_nothing(flowop, notes);
    }

    /// A flowop could not be read: any flowop may have opened its connection.
    pub(super) fn mark_uncertain(&mut self) {
        self.uncertain = true;
    }

    fn check_use(&self, flowop: &Flowop) -> Result<(), Wrong> {
        let o = &flowop.options;
        let Some(protocol) = self.protocols.get(&o.conn) else {
            if self.uncertain {
                return Ok(());
            }
            let name = if o.conn == 0 { "without a name".to_owned() } else { format!("conn={}", o.conn) };
            return Err(Wrong::new(format!("no connection {name} is open here"))
                .hint("connect or accept it before, in the same group"));
        };
        if *protocol != Some(Protocol::Udp) {
            return Ok(());
        }
        if flowop.kind.sends_files() {
            return Err(Wrong::new("files are not sent over udp").hint("use tcp, or write"));
        }
        let most = o.size.map_or(0, Size::most).max(o.rsize.unwrap_or(0));
        if most > MOST_DATAGRAM_BYTES {
            return Err(Wrong::new(format!("{most} bytes do not fit into a datagram"))
                .hint(format!("at most size={MOST_DATAGRAM_BYTES} with udp")));
        }
        Ok(())
    }
}

fn note_what_does_nothing(flowop: &Flowop, notes: &mut Vec<Note>) {
    let o = &flowop.options;
    let mut note = |text: String| notes.push(Note { line: flowop.line, text });
    let name = flowop.kind.name();
    match (flowop.kind, o.duration_ns) {
        (FlowopKind::Think, None) => note("think says no duration: it takes no time".to_owned()),
        (FlowopKind::Think, Some(_)) | (_, None) => {}
        (_, Some(_)) => note(format!("duration of a {name} has no effect, as in uperf: only of a think it has")),
    }
    match (o.rsize, o.size) {
        (Some(_), Some(Size::Random { .. })) => {
            note("rsize has no effect beside a random size: the server takes the largest".to_owned());
        }
        (Some(rsize), Some(Size::Fixed(size))) if rsize <= size => {
            note(format!("rsize {rsize} has no effect, as in uperf: it is not above size {size}"));
        }
        _ => {}
    }
}
