//! Records on other hosts: the holdup there records and sends its bundle.

use super::Args;
use crate::commands::fleet;
use crate::{bundles, output, signals};
use holdup_host::state;
use holdup_model::frame::{Decoder, Received, encode};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{MemoryBudget, Problem};
use holdup_report::{HostRow, HostState};
use holdup_ssh::{Address, CommandLimits, Output};
use holdup_watch::DEFAULT_WINDOWS;
use std::io::{Error, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a frame carries of a bundle.
const CHUNK: usize = 1 << 20;

/// The most that a window adds to a bundle.
const MOST_BYTES_OF_WINDOW: u64 = 256 << 20;

/// How long a host may take to find the locks in large programs, and to have a slow kernel check the programs of collectors.
const PREPARING: Duration = Duration::from_secs(1800);

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

/// The bundle in what a host sends, which is written as it comes, and gets its name when it is whole.
struct BundleReceiver {
    path: PathBuf,
    decoder: Decoder,
    file: Option<holdup_files::Output>,
    is_whole: bool,
}

impl BundleReceiver {
    fn new(path: PathBuf) -> Self {
        BundleReceiver { path, decoder: Decoder::new(), file: None, is_whole: false }
    }

    fn take(&mut self, payload: &[u8]) -> std::io::Result<()> {
        self.is_whole = payload.is_empty();
        let file = match &mut self.file {
            Some(file) => Ok(file),
            none => holdup_files::Output::create(&self.path).map(|file| none.insert(file)),
        };
        let written = file.and_then(|file| file.write_all(payload));
        written.map_err(|e| Error::other(format!("bundle {}: {e}", self.path.display())))
    }

    /// Gives the bundle its name; `None` when it is not whole.
    ///
    /// # Errors
    /// When something has the name, or the disk fails.
    fn finish(self) -> Result<Option<PathBuf>, Problem> {
        let Some(file) = self.file.filter(|_| self.is_whole) else { return Ok(None) };
        let what = || format!("bundle {}", self.path.display());
        if self.path.symlink_metadata().is_ok() {
            return Err(Problem::usage(what(), "it exists").hint("name another one with --out"));
        }
        file.finish().map_err(|e| Problem::usage(what(), e.to_string()))?;
        Ok(Some(self.path))
    }
}

impl Write for BundleReceiver {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.decoder.feed(bytes);
        while let Some(received) = self.decoder.next() {
            match received {
                Received::Frame { payload, .. } if !self.is_whole => self.take(&payload)?,
                // The shell there may print something before and after.
                Received::Frame { .. } | Received::Noise(_) => {}
                Received::Gap { .. } | Received::Damaged { .. } => {
                    return Err(Error::other("its bundle arrived damaged"));
                }
            }
        }
        // Stuffing may double a chunk.
        if self.decoder.pending_bytes() > 3 * CHUNK {
            return Err(Error::other("its bundle arrived in parts that holdup does not send"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A host sends no more than a trial of each window may have, after the time that it watches and that of preparing for it.
fn limits(args: &Args) -> CommandLimits {
    let time = args.duration.saturating_add(args.wait.longest()).saturating_add(PREPARING);
    fleet::limits(time, u64::from(args.windows.unwrap_or(DEFAULT_WINDOWS)) * MOST_BYTES_OF_WINDOW)
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
    words.extend(args.sampling.words());
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
    let into = |address: &Address| {
        let path = outs.iter().find(|(name, _)| *name == address.to_string()).map(|(_, path)| path.clone());
        BundleReceiver::new(path.unwrap_or_default())
    };
    let asked = (&words(args)[..], limits(args));
    let rows = fleet::ask(&addresses, &args.ssh, &cancel, asked, into, |address, bundle, answer| {
        let row = answer.and_then(|answer| keep(address, bundle, &answer));
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

/// Reads the answer of a host in its bundle.
fn keep(address: &Address, bundle: BundleReceiver, answer: &Output) -> Result<HostRow, Problem> {
    let path = bundle.finish()?.ok_or_else(|| fleet::refused(address, answer))?;
    let bundle = holdup_bundle::read_without_events(&path, &MemoryBudget::default())?;
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

    /// The bundle that is there when this was sent, and what was wrong with it.
    fn received(sent: &[u8]) -> (Option<Vec<u8>>, Option<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bundle = BundleReceiver::new(folder.path().join("a.holdup"));
        let wrong = bundle.write_all(sent).err().map(|e| e.to_string());
        let path = bundle.finish().expect("it can be written");
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, usize::from(path.is_some()), "a part of it is left");
        (path.map(|path| std::fs::read(path).expect("a bundle")), wrong)
    }

    #[test]
    fn a_bundle_arrives_whole_behind_what_a_shell_prints_or_not_at_all() {
        let bundle: Vec<u8> = (0..3 * CHUNK / 2).map(|n| (n % 251) as u8).collect();
        let mut sent = b"Welcome to db1\n".to_vec();
        for (sequence, part) in bundle.chunks(CHUNK).chain([&[][..]]).enumerate() {
            sent.extend(encode(sequence as u32, part));
        }
        assert_eq!(received(&sent), (Some(bundle), None));
        for cut in [1, 10, CHUNK, sent.len() - 5] {
            assert_eq!(received(&sent[..sent.len() - cut]), (None, None), "{cut} bytes are missing");
        }
    }

    #[test]
    fn what_is_no_part_of_a_bundle_is_not_kept() {
        let lost = [encode(0, b"a"), encode(2, b"c"), encode(3, b"")].concat();
        assert!(received(&lost).1.is_some_and(|why| why == "its bundle arrived damaged"));
        let large = encode(0, &vec![0; 8 << 20]);
        let (bundle, wrong) = received(&large[..4 * CHUNK]);
        assert!(bundle.is_none() && wrong.is_some_and(|why| why.contains("parts that holdup does not send")));
    }

    #[derive(clap::Parser)]
    struct RecordLine {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_collectors_are_set_to_goes_along() {
        let options = ["--section=a", "--section=b", "--frequency=9", "--no-breakpoints"];
        let line: RecordLine = clap::Parser::parse_from(["record", "--pid=1"].into_iter().chain(options));
        let words = words(&line.args);
        assert!(options.iter().all(|option| words.contains(&(*option).to_owned())), "{words:?}");
    }
}
