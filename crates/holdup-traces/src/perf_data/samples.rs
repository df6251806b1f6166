//! Samples: tracepoints, and what ran when a clock or a counter went off.

use super::attributes::{Attribute, Attributes, TRACEPOINT, sample};
use super::maps::Maps;
use crate::bytes::{u32_at, u64_at};
use crate::event::{Event, What};
use crate::format::Formats;

/// Bits of `read_format`.
const READ_ENABLED: u64 = 1;
const READ_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

/// The event of a sample; `None` for one that says nothing here.
pub(super) fn read(
    body: &[u8],
    attributes: &Attributes,
    formats: &Formats,
    maps: &mut Maps,
) -> Result<Option<Event>, &'static str> {
    let Some(attribute) = attributes.of_sample(body) else { return Ok(None) };
    let fields = attribute.fields;
    let short = "a sample is shorter than its fields";
    let mut at = 0;
    let mut next = |bit: u64| -> Result<Option<u64>, &'static str> {
        if fields & bit == 0 {
            return Ok(None);
        }
        let number = u64_at(body, at).ok_or(short)?;
        at += 8;
        Ok(Some(number))
    };
    next(sample::IDENTIFIER)?;
    next(sample::IP)?;
    let task = next(sample::TID)?;
    let at_ns = next(sample::TIME)?.ok_or("a sample without its time")?;
    for bit in [sample::ADDRESS, sample::ID, sample::STREAM] {
        next(bit)?;
    }
    let cpu = next(sample::CPU)?.ok_or("a sample without its CPU: perf record -a, or --sample-cpu, has it")?;
    next(sample::PERIOD)?;
    if fields & sample::READ != 0 {
        at = at.saturating_add(read_length(attribute, body, at).ok_or(short)?);
    }
    let mut chain: &[u8] = &[];
    if fields & sample::CALLCHAIN != 0 {
        let length =
            usize::try_from(u64_at(body, at).ok_or(short)?).ok().and_then(|n| n.checked_mul(8)).ok_or(short)?;
        chain = body.get(at + 8..).and_then(|rest| rest.get(..length)).ok_or(short)?;
        at += 8 + length;
    }
    // The number of the CPU is the lower half.
    let cpu = cpu as u32;
    if attribute.kind != TRACEPOINT {
        // The process is the lower half, the thread the upper one.
        let Some(task) = task.filter(|task| task >> 32 != 0) else { return Ok(None) };
        let stack = maps.stack(task as u32, chain);
        return Ok(Some(Event { at_ns, cpu, what: What::Sample { tid: (task >> 32) as u32, name: None, stack } }));
    }
    if fields & sample::RAW == 0 {
        return Err("a tracepoint without its fields: perf record -R has them");
    }
    let length = u32_at(body, at).ok_or(short)? as usize;
    let raw = body.get(at + 4..).and_then(|rest| rest.get(..length)).ok_or(short)?;
    Ok(formats.read(raw).map(|what| Event { at_ns, cpu, what }))
}

fn read_length(attribute: &Attribute, body: &[u8], at: usize) -> Option<usize> {
    let format = attribute.read_format;
    let has = |bit: u64| usize::from(format & bit != 0);
    let times = has(READ_ENABLED) + has(READ_RUNNING);
    let each = 1 + has(READ_ID) + has(READ_LOST);
    let numbers = match format & READ_GROUP {
        0 => times + each,
        _ => usize::try_from(u64_at(body, at)?).ok()?.checked_mul(each)?.checked_add(1 + times)?,
    };
    numbers.checked_mul(8)
}
