//! Files of the kernel that hold a setting: where one is, why it cannot be used, and the knob that is one number.

use crate::refused::{ask_file, garbled, is_locked_down, wrong};
use crate::sample::Sample;
use crate::{Knob, KnobContext};
use holdup_host::Host;
use holdup_model::profile::Destination;
use holdup_model::text::shell_quoted;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};
use std::io::ErrorKind;

/// A file that has moved from one kernel version to another.
pub(crate) struct KernelFile {
    /// Where it is now; also the one that is named when none is there.
    pub(crate) newest: &'static str,
    /// Which kernels had it elsewhere, and where.
    pub(crate) older: &'static [(&'static str, &'static str)],
    /// What a kernel needs to have it.
    pub(crate) needs: &'static str,
}

impl KernelFile {
    pub(crate) fn path(&self, host: &Host) -> &'static str {
        self.older.iter().map(|(_, path)| *path).find(|path| host.exists(path)).unwrap_or(self.newest)
    }

    /// Its place and its text, without the white space around it.
    pub(crate) fn read(&self, host: &Host) -> Result<(&'static str, String), Problem> {
        let path = self.path(host);
        Ok((path, host.read_value(path)?))
    }

    /// Writes it in one call, as the kernel wants it.
    pub(crate) fn write(&self, host: &Host, text: &str) -> Result<(), Problem> {
        Ok(host.write(self.path(host), text)?)
    }

    /// Its text, when it can be read and written.
    ///
    /// # Errors
    /// What stands in the way, with what would help.
    pub(crate) fn ask(&self, host: &Host) -> Result<String, Availability> {
        ask_file(host, self.path(host), || self.missing(host))
    }

    /// True if it is known not to be there. A file that may not be looked at is not known.
    pub(crate) fn is_missing(&self, host: &Host) -> bool {
        host.read_value(self.path(host)).is_err_and(|e| e.kind == ErrorKind::NotFound)
    }

    /// A command of the shell that writes `text` there.
    pub(crate) fn by_hand(&self, text: &str) -> String {
        let text = shell_quoted(text);
        let elsewhere: Vec<String> = self.older.iter().map(|(kernels, path)| format!("{kernels}: {path}")).collect();
        let newest = self.newest;
        match elsewhere.as_slice() {
            [] => format!("echo {text} > {newest}"),
            _ => format!("echo {text} > {newest}   # {}", elsewhere.join("; ")),
        }
    }

    /// Where other tools put a text: the newest place, as a sysctl where it is one.
    pub(crate) fn destination(&self, text: &str) -> Destination {
        let value = text.to_owned();
        match self.newest.strip_prefix("/proc/sys/") {
            Some(rest) => Destination::Sysctl { key: rest.replace('/', "."), value },
            None => Destination::File { path: self.newest.to_owned(), value },
        }
    }

    /// Why it is nowhere.
    fn missing(&self, host: &Host) -> Availability {
        if !is_debugfs_mounted(host) {
            let has_sysctl = self.older.iter().any(|(_, path)| path.starts_with("/proc/sys/"));
            let also = if has_sysctl { ", and the sysctl of kernels up to 5.12 is not there" } else { "" };
            return match knows_debugfs(host) {
                Some(false) => Availability::unavailable_but(
                    format!("this kernel has no debugfs{also}"),
                    "use a kernel with CONFIG_DEBUG_FS=y, booted without debugfs=off",
                ),
                _ => Availability::unavailable_but(
                    format!("debugfs is not mounted{also}"),
                    "mount -t debugfs none /sys/kernel/debug   (as root)",
                ),
            };
        }
        if is_locked_down(host) {
            return Availability::unavailable_but(
                "the kernel is locked down, which closes debugfs",
                "boot without lockdown",
            );
        }
        let older: String = self.older.iter().rev().map(|(_, path)| format!(" nor {path}")).collect();
        let reason = match older.as_str() {
            "" => format!("{} does not exist in this kernel", self.newest),
            _ => format!("neither {}{older} exists in this kernel", self.newest),
        };
        Availability::unavailable_but(reason, format!("use {}", self.needs))
    }
}

fn is_debugfs_mounted(host: &Host) -> bool {
    host.read_text("/proc/mounts").is_ok_and(|mounts| {
        mounts.lines().any(|line| line.split_ascii_whitespace().nth(1) == Some("/sys/kernel/debug"))
    })
}

/// True if the kernel has debugfs at all; `None` when it is not known.
fn knows_debugfs(host: &Host) -> Option<bool> {
    let known = host.read_text("/proc/filesystems").ok()?;
    Some(known.lines().any(|line| line.split_ascii_whitespace().last() == Some("debugfs")))
}

/// A knob that is one whole number in one file of the kernel.
pub(crate) struct KernelNumber {
    /// What it says about itself.
    pub(crate) meta: &'static Meta,
    /// What a plan writes for it.
    pub(crate) kind: ParameterKind,
    /// What tests set of it.
    pub(crate) samples: &'static [Sample],
    /// What a change touches, in words.
    pub(crate) touches: &'static str,
    pub(crate) file: KernelFile,
    /// The least and the most that a plan may set. What was there before is put back even outside of them.
    pub(crate) bounds: (i64, i64),
    /// The bounds in words, after "give".
    pub(crate) expected: &'static str,
    /// What else stands in the way; asked with whether the file is missing.
    pub(crate) hindrance: Option<fn(&Host, bool) -> Option<Availability>>,
}

/// All that the kernel shows for such a number: the sysctls are signed, and the files of debugfs are not
/// (`proc_dointvec` in kernel/sysctl.c v5.10, `debugfs_create_u32`).
const KEPT: std::ops::RangeInclusive<i64> = i32::MIN as i64..=u32::MAX as i64;

impl Knob for KernelNumber {
    fn meta(&self) -> &'static Meta {
        self.meta
    }

    fn values(&self) -> ParameterKind {
        self.kind
    }

    fn samples(&self) -> &'static [Sample] {
        self.samples
    }

    fn touches(&self, _instance: &str) -> String {
        self.touches.to_owned()
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        let host = context.host;
        if let Some(found) = self.hindrance.and_then(|ask| ask(host, self.file.is_missing(host))) {
            return found;
        }
        match self.file.ask(host) {
            Ok(text) => match number(&text) {
                Some(_) => Availability::Ready,
                None => Availability::unavailable(garbled(self.file.path(host), &text).to_string()),
            },
            Err(hindrance) => hindrance,
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let (path, text) = self.file.read(context.host)?;
        number(&text).map(Value::Integer).ok_or_else(|| garbled(path, &text))
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        match value {
            Value::Integer(number) if (self.bounds.0..=self.bounds.1).contains(number) => Ok(()),
            _ => Err(wrong(self.meta.id, value, self.expected)),
        }
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        match value {
            Value::Integer(number) if KEPT.contains(number) => self.file.write(context.host, &number.to_string()),
            _ => Err(wrong(self.meta.id, value, self.expected)),
        }
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        self.file.by_hand(&saved.to_string())
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        vec![self.file.destination(&value.to_string())]
    }
}

fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number| KEPT.contains(number))
}
