//! Why a file of the kernel cannot be used, in words.

use holdup_host::{Host, HostError};
use holdup_model::{Availability, Problem, Value};
use std::io::ErrorKind;

/// What stands in the way of writing a file that exists.
pub(crate) fn write_refused(host: &Host, error: &HostError) -> Availability {
    match error.kind {
        ErrorKind::PermissionDenied if is_locked_down(host) || is_closed_debugfs(error) => {
            Availability::unavailable_but(
                format!("{error}: the kernel is locked down, also for root"),
                "boot without lockdown (Secure Boot and lockdown= on the kernel's command line switch it on)",
            )
        }
        ErrorKind::PermissionDenied => Availability::unavailable_but(error.to_string(), "run holdup as root"),
        ErrorKind::ReadOnlyFilesystem => Availability::unavailable_but(
            error.to_string(),
            "mount it writable; in a container run it with the host's /proc and /sys, or holdup on the host",
        ),
        _ => Availability::unavailable(error.to_string()),
    }
}

/// Missing rights give EACCES; EPERM in debugfs is lockdown (`fs/debugfs/file.c:debugfs_locked_down`, v6.18), which
/// also shows where securityfs is not mounted.
fn is_closed_debugfs(error: &HostError) -> bool {
    error.path.starts_with("/sys/kernel/debug/") && error.message == "operation not permitted"
}

/// True if kernel lockdown is on, which closes debugfs to everybody.
pub(crate) fn is_locked_down(host: &Host) -> bool {
    let state = host.read_value("/sys/kernel/security/lockdown");
    state.is_ok_and(|text| text.contains('[') && !text.contains("[none]"))
}

/// A value of the wrong kind for a knob.
pub(crate) fn wrong(factor: &str, value: &Value, expected: &str) -> Problem {
    Problem::usage(format!("factor {factor} = {value}"), "not a value of this knob").hint(format!("give {expected}"))
}

/// A file whose content is not what the kernel writes there.
pub(crate) fn garbled(path: &str, text: &str) -> Problem {
    Problem::host(format!("cannot read {path}"), format!("`{text}` is not what the kernel writes there"))
}

/// Whether a file of the kernel can be set; `missing` says why it may not be there.
pub(crate) fn probe_file(host: &Host, path: &str, missing: impl FnOnce() -> Availability) -> Availability {
    ask_file(host, path, missing).map_or_else(|hindrance| hindrance, |_| Availability::Ready)
}

/// The text of a file that can be read and written; else what stands in the way.
pub(crate) fn ask_file(
    host: &Host,
    path: &str,
    missing: impl FnOnce() -> Availability,
) -> Result<String, Availability> {
    match host.read_value(path) {
        Ok(text) => host.may_write(path).map(|()| text).map_err(|e| write_refused(host, &e)),
        Err(e) if e.kind == ErrorKind::NotFound => Err(missing()),
        Err(e) => Err(write_refused(host, &e)),
    }
}
