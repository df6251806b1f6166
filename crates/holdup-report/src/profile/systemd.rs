//! A profile as a unit of systemd that writes with plain commands: systemd.service(5).

use super::{FEATURES, Placed, elsewhere, head, is_plain, is_plain_value, one_line, placed};
use holdup_model::Profile;
use holdup_model::profile::Destination;

/// A unit that sets what a profile sets when it is started and puts the old values back when it is stopped, and as
/// comments what no such unit can set. `destinations` says where each setting lives, in their order.
pub fn systemd(profile: &Profile, destinations: &[Vec<Destination>]) -> String {
    let placed = placed(profile, destinations);
    let name = &profile.name;
    let mut out = head(
        profile,
        "systemd",
        &[
            format!("Put it into /etc/systemd/system/holdup-{name}.service, then"),
            format!(
                "`systemctl daemon-reload` and `systemctl enable --now holdup-{name}`. Stopping puts the old values back."
            ),
        ],
    );
    let summary = one_line(&profile.summary).replace('%', "%%");
    let summary = if summary.is_empty() { String::new() } else { format!(": {summary}") };
    out.push_str(&format!(
        "\n[Unit]\nDescription=Profile {name} of holdup{}\nAfter=systemd-sysctl.service sys-kernel-debug.mount\n",
        summary.trim_end_matches('\\')
    ));
    out.push_str("\n[Service]\nType=oneshot\nRemainAfterExit=yes\n");
    out.push_str(&format!("RuntimeDirectory=holdup-{name}\n"));
    out.push_str("# Each line keeps the old value, then writes the new one.\n");
    for (setting, destination) in &placed {
        if let Some((path, value)) = destination.and_then(file) {
            // A dash in front: failing to set it is no failure.
            let dash = if setting.optional { "-" } else { "" };
            out.push_str(&format!("ExecStart={dash}{}\n", write(&path, value)));
        }
    }
    if !placed.iter().any(|(_, destination)| destination.and_then(file).is_some()) {
        out.push_str("ExecStart=/bin/true\n");
    }
    out.push_str(&format!("ExecStopPost={BACK}\n"));
    out.push_str("\n[Install]\nWantedBy=multi-user.target\n");
    out.push_str(&service(&placed));
    out.push_str(&latency(&placed));
    let is_here = |destination: &Destination| {
        file(destination).is_some()
            || matches!(destination, Destination::Service { .. } | Destination::WakeLatency { .. })
    };
    out.push_str(&elsewhere(&placed, is_here, ""));
    out
}

/// `$` and `%` are doubled for systemd, and so is the backslash; what stands between single quotes is for the shell.
const BACK: &str = "/bin/sh -c 'test ! -e \"$$RUNTIME_DIRECTORY/old\" || tac \"$$RUNTIME_DIRECTORY/old\" | \
                    while read -r f v; do echo \"$$v\" > \"$$f\"; done'";

/// The file to write and what, where a plain command can.
fn file(destination: &Destination) -> Option<(String, &str)> {
    let (path, value) = match destination {
        Destination::Sysctl { key, value } => (format!("/proc/sys/{}", key.replace('.', "/")), value),
        Destination::File { path, value } => (path.clone(), value),
        _ => return None,
    };
    (path.starts_with('/') && is_plain(&path) && is_plain_value(value)).then_some((path, value.as_str()))
}

/// The command that keeps what a file (or each that a pattern names) holds, and writes a value.
fn write(path: &str, value: &str) -> String {
    let old = match path {
        // The old value is that of the one word.
        FEATURES => {
            let word = value.strip_prefix("NO_").unwrap_or(value);
            format!("grep -owE \"(NO_)?{word}\" \"$$f\"")
        }
        // A file of choices marks the one in force with brackets.
        _ => "sed -E \"s/.*[[(]([^])]*)[])].*/\\\\1/\" \"$$f\"".to_owned(),
    };
    format!(
        "/bin/sh -c 'for f in {path}; do v=$$({old}) && echo \"$$f $$v\" >> \"$$RUNTIME_DIRECTORY/old\" && \
         echo {value} > \"$$f\" || exit 1; done'"
    )
}

/// What is about processes belongs into the unit of their service.
fn service(placed: &[Placed<'_>]) -> String {
    let mut lines = String::new();
    for (_, destination) in placed {
        if let Some(Destination::Service { directive, value }) = destination {
            lines.push_str(&format!("#   {}={}\n", one_line(directive), one_line(value).replace('%', "%%")));
        }
    }
    if lines.is_empty() {
        return lines;
    }
    format!(
        "\n# For the service itself: `systemctl edit SERVICE`, then these lines and a restart of it.\n#   [Service]\n{lines}"
    )
}

/// The bound on waking holds while a process keeps the file open, so it needs a unit that runs on.
fn latency(placed: &[Placed<'_>]) -> String {
    let mut out = String::new();
    for (setting, destination) in placed {
        if let Some(Destination::WakeLatency { us }) = destination {
            out.push_str(&format!(
                "\n# {}: it holds while a process keeps /dev/cpu_dma_latency open, so it needs its own unit:\n\
                 #   [Service]\n\
                 #   ExecStart=/bin/sh -c 'exec 3> /dev/cpu_dma_latency; echo 0x{us:08x} >&3; exec sleep infinity'\n",
                one_line(&setting.knob)
            ));
        }
    }
    out
}
