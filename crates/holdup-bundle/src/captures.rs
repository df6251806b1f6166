//! Connections and the worst of them over time, as a bundle keeps them since schema version 3.
//!
//! The members of the JSON:
//!
//! - `flows`: of each connection what a line of `holdup.flow/1` has as `flow`.
//! - `traces`: of each trace `capture`, `stream`, `from`, `to`, `trouble` and `one_of`, and its points in columns: `what` (one letter
//!   each, in one text: `d` data, `r` sent again, `a` acknowledgement), `at_ns` and `byte`.
//! - `capture`, `comparison`: of an imported file, as in `holdup.packets/1`; else null.

use crate::decode::{Cells, Decoded, rows, run_of};
use crate::deflated::{deflate, inflate, parsed};
use crate::evidence::{MOST_JSON_BYTES, bounded};
use crate::parts::Loaded;
use crate::stacks::same_length;
use crate::write::{Written, integer};
use holdup_model::captures::{
    Capture, CaptureComparison, CaptureFlow, CaptureRecord, CaptureTrace, PointKind, TracePoint,
};
use holdup_model::{MemoryBudget, Trial};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[derive(Serialize, Deserialize)]
struct Body<'a> {
    flows: Cow<'a, [CaptureFlow]>,
    traces: Vec<Trace>,
    capture: Option<Cow<'a, Capture>>,
    comparison: Option<Cow<'a, CaptureComparison>>,
}

#[derive(Serialize, Deserialize)]
struct Trace {
    capture: String,
    stream: u32,
    from: String,
    to: String,
    trouble: u64,
    one_of: u32,
    what: String,
    at_ns: Vec<i64>,
    byte: Vec<i64>,
}

/// Writes the part of a trial whose rows of `collector_runs` are there.
pub(crate) fn write(db: &Connection, trial: &Trial) -> Written {
    for (run, kept) in trial.evidence.iter().enumerate().filter_map(|(run, c)| Some((run, c.capture.as_ref()?))) {
        let json = bounded("what is kept of a capture", encode(kept))?;
        db.prepare_cached(
            "INSERT INTO captures (trial, run, flows, flows_beyond, traces, json_bytes, json_zlib) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            trial.seq,
            run as i64,
            kept.flows.len() as i64,
            integer("connections that are not kept", kept.flows_beyond)?,
            kept.traces.len() as i64,
            json.len() as i64,
            deflate(&json)
        ])?;
    }
    Ok(())
}

/// Reads the part: what each of the `runs` collectors of the trial kept, if it did.
pub(crate) fn read(part: &Loaded, runs: usize, budget: &MemoryBudget) -> Decoded<Vec<Option<CaptureRecord>>> {
    let mut all = vec![None; runs];
    for row in rows(part, 0)? {
        let mut c = Cells::of(row);
        let run = run_of(&mut all, c.integer()?)?;
        let (flows, flows_beyond, traces): (u64, u64, u64) = (c.integer()?, c.integer()?, c.integer()?);
        let json_bytes = c.integer()?;
        let _json = budget
            .lease(u64::min(json_bytes, MOST_JSON_BYTES as u64))
            .map_err(|why| format!("what is kept of a capture {why}"))?;
        let kept = inflate(c.bytes()?, json_bytes, MOST_JSON_BYTES).and_then(|json| decode(&json, budget));
        let kept = kept.map_err(|why| format!("what is kept of a capture {why}"))?;
        if (kept.flows.len() as u64, kept.traces.len() as u64) != (flows, traces) {
            return Err(format!(
                "what is kept of a capture holds {} connections and {} traces, {flows} and {traces} were kept",
                kept.flows.len(),
                kept.traces.len()
            ));
        }
        *run = Some(CaptureRecord { flows_beyond, ..kept });
    }
    Ok(all)
}

/// The JSON. The error follows the name of the file.
fn encode(kept: &CaptureRecord) -> Result<Vec<u8>, String> {
    let body = Body {
        flows: Cow::Borrowed(&kept.flows),
        traces: kept.traces.iter().map(columns).collect(),
        capture: kept.capture.as_ref().map(Cow::Borrowed),
        comparison: kept.comparison.as_ref().map(Cow::Borrowed),
    };
    serde_json::to_vec(&body).map_err(|e| e.to_string())
}

/// Reads the JSON. The error follows the name of the file.
fn decode(json: &[u8], budget: &MemoryBudget) -> Result<CaptureRecord, String> {
    let (body, _taken): (Body<'_>, _) = parsed(json, budget)?;
    let points_of: usize = body.traces.iter().map(|trace| trace.what.len()).sum();
    let bytes = json.len() + points_of * size_of::<TracePoint>();
    budget.take(bytes as u64).map_err(|e| e.to_string())?;
    Ok(CaptureRecord {
        capture: body.capture.map(Cow::into_owned),
        comparison: body.comparison.map(Cow::into_owned),
        flows: body.flows.into_owned(),
        flows_beyond: 0,
        traces: body.traces.into_iter().map(points).collect::<Result<_, _>>()?,
    })
}

fn columns(trace: &CaptureTrace) -> Trace {
    Trace {
        capture: trace.capture.clone(),
        stream: trace.stream,
        from: trace.from.clone(),
        to: trace.to.clone(),
        trouble: trace.trouble,
        one_of: trace.one_of,
        what: trace.points.iter().map(|p| letter(p.kind)).collect(),
        at_ns: trace.points.iter().map(|p| p.at_ns).collect(),
        byte: trace.points.iter().map(|p| p.byte).collect(),
    }
}

fn points(trace: Trace) -> Result<CaptureTrace, String> {
    same_length("points", &[trace.what.len(), trace.at_ns.len(), trace.byte.len()])?;
    let point = |((what, at_ns), byte): ((char, i64), i64)| {
        let kind = [PointKind::Data, PointKind::SentAgain, PointKind::Ack].into_iter().find(|k| letter(*k) == what);
        let kind = kind.ok_or_else(|| format!("has a point of the kind `{what}`, which is none"))?;
        Ok(TracePoint { at_ns, byte, kind })
    };
    let Trace { capture, stream, from, to, trouble, one_of, what, at_ns, byte } = trace;
    let points = what.chars().zip(at_ns).zip(byte).map(point).collect::<Result<_, String>>()?;
    Ok(CaptureTrace { capture, stream, from, to, trouble, points, one_of })
}

fn letter(kind: PointKind) -> char {
    match kind {
        PointKind::Data => 'd',
        PointKind::SentAgain => 'r',
        PointKind::Ack => 'a',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a trace that was made by hand.
    fn said(trace: &str) -> String {
        let json = format!(
            r#"{{"flows":[],"capture":null,"comparison":null,"traces":[{{"capture":"a","stream":1,"from":"x","to":"y","trouble":2,"one_of":1,{trace}}}]}}"#
        );
        decode(json.as_bytes(), &MemoryBudget::default())
            .map_or_else(|why| why, |kept| format!("{} points", kept.traces[0].points.len()))
    }

    #[test]
    fn a_body_that_lies_is_refused_with_its_lie() {
        assert_eq!(said(r#""what":"dra","at_ns":[0,1,2],"byte":[0,-1,9]"#), "3 points");
        assert_eq!(
            said(r#""what":"dr","at_ns":[0,1,2],"byte":[0,-1,9]"#),
            "has columns of points that are not of one length"
        );
        assert_eq!(said(r#""what":"dx","at_ns":[0,1],"byte":[0,1]"#), "has a point of the kind `x`, which is none");
        assert!(decode(b"[1", &MemoryBudget::default()).expect_err("noise").starts_with("is not the JSON of one ("));
    }
}
