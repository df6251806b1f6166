//! Which tools are there, and of which version.

use crate::command::arguments;
use crate::command::background::BackgroundProcess;
use crate::external::{About, tools, trial};
use holdup_host::Host;
use holdup_load::Cancel;
use holdup_model::{Availability, Fact, Problem};
use rustix::process::Signal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a tool may take to say its version.
const LONGEST: Duration = Duration::from_secs(5);
/// Bytes kept of each stream.
const KEPT: usize = 64 << 10;

/// The file of a tool.
///
/// # Errors
/// Of kind `Host` when it is not installed, with what installs it.
pub(crate) fn find(about: &About) -> Result<PathBuf, Problem> {
    arguments::find(about.program, Path::new(""), std::env::var_os("PATH").as_deref())
        .map_err(|p| Problem::host(format!("tool {}", about.tool), p.why).hint(about.install))
}

/// Which of the tools are there.
pub(crate) fn availability() -> Availability {
    let missing: Vec<&About> = tools::ALL.iter().map(|t| t.about()).filter(|a| find(a).is_err()).collect();
    let names: Vec<&str> = missing.iter().map(|a| a.tool.word()).collect();
    let mut installs: Vec<&str> = missing.iter().map(|a| a.install).collect();
    installs.dedup();
    if missing.is_empty() {
        Availability::Ready
    } else if missing.len() == tools::ALL.len() {
        Availability::unavailable_but("none of the tools is on the PATH", installs.join("; "))
    } else {
        let there: Vec<&str> =
            holdup_catalogue::external::Tool::WORDS.iter().copied().filter(|id| !names.contains(id)).collect();
        let reason = format!("not on the PATH: {} (there: {})", names.join(", "), there.join(", "));
        Availability::Degraded { reason }
    }
}

/// What a tool says about its version.
pub(crate) fn read(about: &About, file: &Path, host: &Host, cancel: &Cancel) -> Fact {
    let key = format!("external.{}.version", about.tool);
    let Some(words) = about.version else {
        return Fact::absent(key, about.program, "it does not say its version").steady();
    };
    let source = format!("{} {}", about.program, words.join(" "));
    match say(about, file, words, host, cancel) {
        Ok(version) => Fact::read(key, version, source),
        Err(why) => Fact::absent(key, source, why),
    }
    .steady()
}

fn say(about: &About, file: &Path, words: &[&str], host: &Host, cancel: &Cancel) -> Result<String, String> {
    let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
    let program = trial::program(file, about.program, &words).map_err(|p| p.why)?;
    let running = BackgroundProcess::start(&program, host, None, (KEPT, KEPT), about.program).map_err(|p| p.why)?;
    running.wait_until(cancel, LONGEST, &|| running.has_ended());
    let mut said = running.end(Signal::KILL).map_err(|p| p.why)?;
    for stream in [&mut said.stdout, &mut said.stderr] {
        if let Some(version) = version_in(about, &String::from_utf8_lossy(stream.whole_lines())) {
            return Ok(version);
        }
    }
    Err("what it says is not understood".to_owned())
}

/// The word after the text that stands before a version.
fn version_in(about: &About, text: &str) -> Option<String> {
    let after = text.split_once(about.version_after)?.1;
    let word = after.split(|c: char| c.is_whitespace() || c == ',').next()?;
    let word: String = word.chars().filter(|c| !c.is_control()).take(60).collect();
    (!word.is_empty()).then_some(word)
}

/// The file itself: a tool that is built anew between two trials is another tool.
pub(crate) fn file_fact(about: &About, file: &Path) -> Fact {
    let key = format!("external.{}.program {}", about.tool, file.display());
    match std::fs::metadata(file) {
        Ok(m) => Fact::read(key, format!("{} bytes, changed {}.{:09}", m.size(), m.mtime(), m.mtime_nsec()), "stat(2)"),
        Err(e) => Fact::absent(key, "stat(2)", e.to_string()),
    }
    .steady()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_word_after_their_name() {
        let check = |id: &str, text: &str, expect: Option<&str>| {
            let about = tools::find(id.parse().expect("known")).about();
            assert_eq!(version_in(about, text).as_deref(), expect, "{id}");
        };
        check("cyclictest", "cyclictest V 2.40\nUsage:\n", Some("2.40"));
        check("sockperf", "sockperf, version 3.7-no.git\n   compiled\n", Some("3.7-no.git"));
        check("perf-bench", "perf version 6.1.187\n", Some("6.1.187"));
        check("iperf3", "iperf 3.12 (cJSON 1.7.15)\n", Some("3.12"));
        check("sysbench", "sysbench 1.0.20\n", Some("1.0.20"));
        check("uperf", "Uperf Version 1.0.8\n", Some("1.0.8"));
        check("hackbench", "no such option", None);
        check("hackbench", "hackbench V ", None);
    }
}
