//! iperf3 and uperf in the place of this engine.

use super::results::METRICS;
use crate::external::stand_in::{StandIns, carry};
use holdup_model::{Parameters, Problem};

/// Both carry data over connections for a while.
pub(crate) const STAND_INS: StandIns = StandIns { metrics: METRICS, translate, derive: |_| Vec::new() };

fn translate(tool: &str, own: &Parameters) -> Result<Parameters, Problem> {
    let refuse = |why: &str, hint: &str| Err(Problem::usage(format!("by {tool}"), why).hint(hint));
    if own.text("network")? != Some("host") {
        return refuse("it runs in the namespace of the host", "network = host");
    }
    if own.text("profile")?.is_some() {
        return refuse("a profile is not handed on to it", "leave profile out, or run it with `external`");
    }
    match (own.text("protocol")?, own.text("mode")?) {
        (Some("tcp" | "udp"), Some("write" | "read")) => {}
        (Some("tcp" | "udp"), _) => return refuse("it is run in one direction", "mode = write or read"),
        _ => return refuse("it is run over TCP and UDP only", "protocol = tcp or udp"),
    }
    let mut names = vec![
        ("connections", "connections"),
        ("protocol", "protocol"),
        ("mode", "mode"),
        ("size", "size"),
        ("placement", "placement"),
    ];
    match tool {
        "uperf" => names.push(("sharing", "sharing")),
        // One process; before 3.16 one thread.
        _ if own.text("sharing")? == Some("processes") => return refuse("it is one process", "sharing = threads"),
        _ => {}
    }
    let mut theirs = carry(own, &names);
    if own.get("size").is_none() {
        // What holdup takes when it is not told.
        theirs.set("size", if own.text("protocol")? == Some("udp") { 1472 } else { 131_072 });
    }
    Ok(theirs)
}
