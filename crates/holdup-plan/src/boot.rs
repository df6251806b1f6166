//! What is chosen when a guest boots: its kernel, the kernel's command line, its PostgreSQL.

use crate::errors::Wrong;
use crate::node::{Data, Node};
use crate::source::resolve;
use crate::words::shown;
use holdup_model::guest;

/// Where kernels come from: what stands before the colon of a kernel's name.
const KERNEL_SOURCES: &[&str] = &["debian", "file", "deb", "rpm", "build"];
const KERNEL_HINT: &str = "\"debian:7.0\", \"debian:6.19.14/cloud\", \"file:PATH\", \"deb:PATH\", \"rpm:PATH\", \"build:debian:7.2,OPTION=y\", \"host\"";
const SERVER_HINT: &str = "\"host\", \"deb:17\", or the folder with postgres and initdb, with a slash in it";
/// The longest name and the longest value of a parameter of the kernel: its whole command line has 2048 bytes
/// (COMMAND_LINE_SIZE, arch/x86/include/asm/setup.h, Linux 6.19).
const MOST_PARAMETER: usize = 200;
const MOST_SPEC: usize = 4096;

/// Which factor of a boot a value is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BootFactor {
    Kernel,
    Server,
    Argument,
}

impl BootFactor {
    /// The factor with this id in the vocabulary.
    pub(crate) fn of(id: &str) -> Self {
        match id {
            guest::KERNEL => BootFactor::Kernel,
            guest::POSTGRES_SERVER => BootFactor::Server,
            _ => BootFactor::Argument,
        }
    }

    /// A value as the target takes it, with paths relative to `file`, and how it was written.
    pub(crate) fn read(self, node: &Node, file: &str) -> Result<(String, String), Wrong> {
        let text = match (&node.data, self) {
            (Data::Text(text), _) => text.trim().to_owned(),
            (Data::Integer(i), BootFactor::Argument) => i.to_string(),
            (Data::Float(x), BootFactor::Argument) if x.is_finite() => x.to_string(),
            (Data::Bool(b), BootFactor::Argument) => if *b { "on" } else { "off" }.to_owned(),
            _ => return Err(crate::values::unexpected(node, "a text").hint(self.hint())),
        };
        if text.chars().count() > MOST_SPEC {
            return Err(Wrong::new(format!("it has more than {MOST_SPEC} characters")));
        }
        if text.contains(char::is_control) {
            return Err(Wrong::new("it holds a control character").hint(self.hint()));
        }
        let value = match self {
            BootFactor::Kernel => kernel(&text, file)?,
            BootFactor::Server => server(&text, file)?,
            BootFactor::Argument => argument(&text)?,
        };
        Ok((value, text))
    }

    fn hint(self) -> &'static str {
        match self {
            BootFactor::Kernel => KERNEL_HINT,
            BootFactor::Server => SERVER_HINT,
            BootFactor::Argument => "\"default\" leaves it out of the kernel's command line",
        }
    }
}

/// Where a kernel comes from. Whether it can be had is the target's question.
fn kernel(text: &str, file: &str) -> Result<String, Wrong> {
    if text == guest::OF_HOST {
        return Ok(text.to_owned());
    }
    let (source, rest) = text.split_once(':').unwrap_or((text, ""));
    if !KERNEL_SOURCES.contains(&source) {
        let near = crate::words::nearest(source, KERNEL_SOURCES).map(|near| format!("did you mean `{near}:`? "));
        let hint = format!("{}kernels are {KERNEL_HINT}", near.unwrap_or_default());
        return Err(Wrong::new("it does not say where the kernel comes from").hint(hint));
    }
    if rest.trim().is_empty() {
        return Err(Wrong::new(format!("nothing follows `{source}:`")).hint(format!("kernels are {KERNEL_HINT}")));
    }
    Ok(match source {
        "file" | "deb" | "rpm" => format!("{source}:{}", resolve(file, rest)),
        "build" => format!("{source}:{}", build(rest, file)),
        _ => text.to_owned(),
    })
}

/// What is built, with its paths: the source unless it is Debian's, and patches and configurations with a slash.
fn build(rest: &str, file: &str) -> String {
    let part = |(i, part): (usize, &str)| match part.split_once('=') {
        None if i == 0 && !part.starts_with("debian:") => resolve(file, part),
        Some((key @ ("patch" | "config"), path)) if path.contains('/') => format!("{key}={}", resolve(file, path)),
        _ => part.to_owned(),
    };
    rest.split(',').enumerate().map(part).collect::<Vec<_>>().join(",")
}

fn server(text: &str, file: &str) -> Result<String, Wrong> {
    let is_version = |v: &str| !v.is_empty() && v.chars().all(|c| c.is_ascii_alphanumeric() || ".+~-".contains(c));
    match text.strip_prefix(guest::PACKAGED) {
        Some(version) if is_version(version) => Ok(text.to_owned()),
        None if text == guest::OF_HOST => Ok(text.to_owned()),
        None if text.contains('/') => Ok(resolve(file, text)),
        _ => Err(Wrong::new("it names no PostgreSQL").hint(SERVER_HINT)),
    }
}

/// The kernel parts its command line at spaces, and a quote joins what follows.
fn argument(text: &str) -> Result<String, Wrong> {
    if text.is_empty() {
        return Err(Wrong::new("it is empty").hint("\"default\" leaves it out of the kernel's command line"));
    }
    if text.len() > MOST_PARAMETER {
        return Err(Wrong::new(format!("it has more than {MOST_PARAMETER} bytes")));
    }
    match text.chars().find(|c| !c.is_ascii_graphic() || *c == '"') {
        None => Ok(text.to_owned()),
        Some(c) => Err(Wrong::new(format!("`{}` cannot stand in a kernel's parameter", shown(&c.to_string())))
            .hint("ASCII without spaces and quotes; what needs them belongs in append of [guest]")),
    }
}

/// Whether something can be the name of a kernel's parameter.
pub(crate) fn check_parameter(name: &str) -> Result<(), Wrong> {
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let wrong = match name.chars().find(|c| !fits(c)) {
        _ if name.len() > MOST_PARAMETER => Wrong::new(format!("it has more than {MOST_PARAMETER} bytes")),
        None if name.is_empty() => Wrong::new("it names no parameter of the kernel"),
        None => return Ok(()),
        Some(c) => Wrong::new(format!("`{}` cannot stand in the name of a kernel's parameter", shown(&c.to_string()))),
    };
    Err(wrong.hint("boot.NAME adds NAME=VALUE to the kernel's command line: ASCII letters, digits and _.-"))
}

pub(crate) fn targets_hint(boot_targets: &[&str]) -> String {
    match boot_targets {
        [] => "no target here boots guests".to_owned(),
        [first, ..] => format!("target = \"{first}\""),
    }
}
