//! Traces of SchedViz: a tar archive of the kernel's own buffers (`traces/cpuN`) with the formats of their events
//! (`formats/SYSTEM/EVENT/format`, `formats/header_page`; util/trace.sh of google/schedviz).

use crate::bytes::{File, LARGEST_PART};
use crate::format::Formats;
use crate::merge::merge;
use crate::ring::{Clock, PageLayout, Ring};
use crate::trace_dat::{CpuPart, PartPages};
use crate::{Sink, TraceHead};
use holdup_model::Problem;

/// The length of a block of an archive, and of the head of a member (tar(5)).
const BLOCK: u64 = 512;

/// Members beyond this are not looked at.
const MOST_MEMBERS: u32 = 100_000;

/// True if the begin of a file is that of an archive.
pub(crate) fn is_it(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

struct Member {
    name: String,
    at: u64,
    length: u64,
}

/// Reads an archive.
pub(crate) fn read(file: File<'_>, sink: Sink<'_>) -> Result<TraceHead, Problem> {
    let (mut formats, mut layout, mut parts) = (Formats::default(), None, Vec::new());
    for member in members(file)? {
        let text = || -> Result<String, Problem> {
            if member.length > LARGEST_PART as u64 {
                return Err(file.problem(member.at, format!("{} has {} bytes", member.name, member.length)));
            }
            let bytes = file.exactly(member.at, member.length, &member.name)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        // The archive may have a folder around all.
        let path: Vec<&str> = member.name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        match path.as_slice() {
            [.., "formats", "header_page"] => layout = PageLayout::of(&text()?),
            [.., "formats", system, _, "format"] => formats.add(system, &text()?),
            [.., "traces", cpu] => {
                if let Some(cpu) = cpu.strip_prefix("cpu").and_then(|number| number.parse().ok()) {
                    parts.push(CpuPart { cpu, at: member.at, length: member.length });
                }
            }
            _ => {}
        }
    }
    let Some(layout) = layout else {
        return Err(Problem::usage(file.name, "an archive without formats/header_page: it is no trace of SchedViz"));
    };
    parts.sort_by_key(|part| part.cpu);
    let mut rings = Vec::with_capacity(parts.len());
    for part in &parts {
        let pages = PartPages::new(file, *part, layout.page_bytes, None)?;
        rings.push(Ring::new(pages, part.cpu, layout, &formats, Clock::default()));
    }
    merge(&mut rings, sink)?;
    Ok(TraceHead {
        format: "SchedViz".to_owned(),
        cpus: u32::try_from(parts.len()).unwrap_or(u32::MAX),
        ..TraceHead::default()
    })
}

fn members(file: File<'_>) -> Result<Vec<Member>, Problem> {
    let (mut at, mut found) = (0, Vec::new());
    for _ in 0..MOST_MEMBERS {
        let mut head = [0; BLOCK as usize];
        if file.fill(at, &mut head)? < head.len() {
            return match at {
                0 => Err(file.cut(0, "an archive")),
                // Some writers leave out the empty blocks at the end.
                _ if at >= file.bytes.length() => Ok(found),
                _ => Err(file.cut(at, "the head of a member")),
            };
        }
        if head.iter().all(|byte| *byte == 0) {
            return Ok(found);
        }
        let text = |from: usize, length: usize| {
            let bytes = head[from..from + length].split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(bytes).trim().to_owned()
        };
        let length = u64::from_str_radix(&text(124, 12), 8);
        let length = length.map_err(|_| file.problem(at, "the head of a member is damaged"))?;
        let prefix = text(345, 155);
        let name = if prefix.is_empty() { text(0, 100) } else { format!("{prefix}/{}", text(0, 100)) };
        let begin = at + BLOCK;
        if begin.checked_add(length).is_none_or(|end| end > file.bytes.length()) {
            return Err(file.cut(begin, &name));
        }
        if matches!(head[156], b'0' | 0) {
            found.push(Member { name, at: begin, length });
        }
        at = begin + length.next_multiple_of(BLOCK);
    }
    Ok(found)
}
