//! Records on other hosts: the holdup there records and sends its bundle.

use super::Args;
use crate::commands::fleet;
use crate::{bundles, output, signals};
use holdup_host::state;
use holdup_model::frame::{Decoder, Received, encode};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{BundleData, Problem};
use holdup_report::{HostRow, HostState};
use holdup_ssh::{Address, Output};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// What a frame carries of a bundle.
const CHUNK: usize = 1 << 20;

/// Where a bundle is kept until it is sent: in holdup's own folder, which no other user can change.
pub(super) fn temporary() -> PathBuf {
    PathBuf::from(format!("{}/sent-{}.holdup", state::dir(), std::process::id()))
}

/// Sends a bundle over standard output, in frames with an empty one as its end, and removes it.
///
/// # Errors
/// When it cannot be read or sent.
pub(super) fn send(bundle: &Path) -> Result<(), Problem> {
    let sent = send_file(bundle).map_err(|e| Problem::host("sending the bundle", e.to_string()));
    let removed = std::fs::remove_file(bundle).map_err(|e| Problem::host(bundle.display().to_string(), e.to_string()));
    sent.and(removed)
}

fn send_file(bundle: &Path) -> std::io::Result<()> {
    let (mut file, mut out) = (holdup_files::open_input(bundle)?, std::io::stdout().lock());
    let mut bytes = vec![0; CHUNK];
    for sequence in 0.. {
        let n = file.read(&mut bytes)?;
        out.write_all(&encode(sequence, &bytes[..n]))?;
        if n == 0 {
            break;
        }
    }
    out.flush()
}

/// The bundle in what a host sent; `None` when it is not whole.
fn received(stdout: &[u8]) -> Option<Vec<u8>> {
    let (mut decoder, mut bundle) = (Decoder::new(), Vec::new());
    for part in stdout.chunks(CHUNK) {
        decoder.feed(part);
        while let Some(received) = decoder.next() {
            match received {
                Received::Frame { payload, .. } if payload.is_empty() => return Some(bundle),
                Received::Frame { payload, .. } => bundle.extend(payload),
                // What the shell there prints.
                Received::Noise(_) => {}
                Received::Gap { .. } | Received::Damaged { .. } => return None,
            }
        }
    }
    None
}

/// The arguments for the holdup at the far end.
fn words(args: &Args) -> Vec<String> {
    let mut words = vec!["record".to_owned(), "--to-stdout".to_owned()];
    let list = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    words.extend((!args.watched.pid.is_empty()).then(|| format!("--pid={}", list(&args.watched.pid))));
    words.extend(args.watched.comm.iter().map(|name| format!("--comm={name}")));
    words.extend(args.watched.cgroup.iter().map(|path| format!("--cgroup={path}")));
    words.extend(args.watched.pg.iter().map(|server| format!("--pg={server}")));
    words.push(format!("--duration={}ns", args.duration.as_nanos()));
    words.extend(args.windows.map(|n| format!("--windows={n}")));
    words.extend(args.collect.iter().map(|ids| format!("--collect={}", ids.join(","))));
    words.push(format!("--wait={}ns", args.wait.longest().as_nanos()));
    words
}

/// Records on hosts, keeps a bundle of each, and prints one table.
///
/// # Errors
/// When no host is named, or the user asks to end.
pub(super) fn run(args: &Args, target: &str) -> anyhow::Result<u8> {
    let addresses = fleet::hosts(target)?;
    if args.out.is_some() && addresses.len() > 1 {
        return Err(Problem::usage("--out", "each host has a bundle of its own").hint("leave it away").into());
    }
    // Names are chosen before the hosts are asked side by side.
    let out = |address: &Address| match &args.out {
        Some(out) => out.clone(),
        None => {
            let name: String =
                address.to_string().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            bundles::free_name(format!("record-{name}"))
        }
    };
    let outs: Vec<(String, PathBuf)> = addresses.iter().map(|a| (a.to_string(), out(a))).collect();
    if !args.quiet {
        let hosts = holdup_model::text::count(addresses.len(), "host");
        output::say(&format!("recording {:.0} s on {hosts}; nothing is changed", args.duration.as_secs_f64()));
    }
    let cancel = signals::cancel_on_signals()?;
    let rows = fleet::ask(&addresses, &args.ssh, &cancel, &words(args), |address, answer| {
        let path = outs.iter().find(|(name, _)| *name == address.to_string()).map(|(_, path)| path.clone());
        let row = answer.and_then(|answer| keep(address, &answer, &path.unwrap_or_default()));
        row.unwrap_or_else(|problem| fleet::failed(address, &problem))
    });
    if cancel.is_cancelled() {
        return Err(Problem::interrupted("record").into());
    }
    let has_none = rows.iter().all(|row| row.state == HostState::Failed);
    let is_whole = rows.iter().all(|row| row.state != HostState::Failed);
    if !args.quiet {
        fleet::print(rows, "delayed", args.json, args.details)?;
        let kept: Vec<String> =
            outs.iter().filter(|(_, path)| path.exists()).map(|(_, path)| path.display().to_string()).collect();
        output::say(&format!("bundles: {}", kept.join(" ")));
    }
    Ok(if is_whole && !has_none { 0 } else { 3 })
}

/// Writes the bundle of a host, and reads its answer.
fn keep(address: &Address, answer: &Output, path: &Path) -> Result<HostRow, Problem> {
    let bytes = received(&answer.stdout).ok_or_else(|| fleet::refused(address, answer))?;
    if path.symlink_metadata().is_ok() {
        return Err(
            Problem::usage(format!("bundle {}", path.display()), "it exists").hint("name another one with --out")
        );
    }
    let failed = |e: std::io::Error| Problem::usage(format!("bundle {}", path.display()), e.to_string());
    holdup_files::write_output(path, &bytes).map_err(failed)?;
    let bundle: BundleData = holdup_bundle::read(path)?;
    let explanation = holdup_analysis::explain(&bundle);
    let (state, verdict) = match explanation.verdict() {
        FindingVerdict::Supported => (HostState::Found, "delayed"),
        FindingVerdict::Refuted => (HostState::Clear, "not delayed"),
        FindingVerdict::Undecided | FindingVerdict::Skipped => (HostState::Undecided, "undecided"),
    };
    let facts = bundle.environment.iter().flat_map(|of_session| &of_session.facts);
    let kernel = facts.filter(|fact| fact.key == "kernel.release").find_map(|fact| fact.value.clone());
    let answer = explanation.arms.first().map(|arm| arm.answer.clone());
    Ok(HostRow {
        host: address.to_string(),
        state,
        verdict: verdict.to_owned(),
        kernel: kernel.unwrap_or_else(|| "-".to_owned()),
        answer: answer.unwrap_or_else(|| "no window has evidence".to_owned()),
        hint: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_arrives_whole_behind_what_a_shell_prints_or_not_at_all() {
        let bundle: Vec<u8> = (0..3 * CHUNK / 2).map(|n| (n % 251) as u8).collect();
        let mut sent = b"Welcome to db1\n".to_vec();
        for (sequence, part) in bundle.chunks(CHUNK).chain([&[][..]]).enumerate() {
            sent.extend(encode(sequence as u32, part));
        }
        assert_eq!(received(&sent), Some(bundle));
        for cut in [1, 10, CHUNK, sent.len() - 5] {
            assert_eq!(received(&sent[..sent.len() - cut]), None, "{cut} bytes are missing");
        }
    }
}
