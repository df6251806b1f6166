//! A profile for systemd-sysctl: sysctl.d(5).

use super::{elsewhere, head, is_plain_value, placed};
use holdup_model::Profile;
use holdup_model::profile::Destination;

/// The sysctls of a profile, and as comments what is none. `destinations` says where each setting lives, in their order.
pub fn sysctl_d(profile: &Profile, destinations: &[Vec<Destination>]) -> String {
    let placed = placed(profile, destinations);
    let name = &profile.name;
    let mut out = head(
        profile,
        "sysctl.d",
        &[format!("Put it into /etc/sysctl.d/90-{name}.conf; `sysctl --system` sets it now, the next boot again.")],
    );
    let is_here = |destination: &Destination| match destination {
        Destination::Sysctl { key, value } => is_plain_value(key) && is_plain_value(value),
        _ => false,
    };
    let mut sysctls = String::new();
    for (setting, destination) in &placed {
        if let Some(Destination::Sysctl { key, value }) = destination.filter(|destination| is_here(destination)) {
            // A dash in front: failing to set it is no failure.
            let dash = if setting.optional { "-" } else { "" };
            sysctls.push_str(&format!("{dash}{key} = {value}\n"));
        }
    }
    if !sysctls.is_empty() {
        out.push_str(&format!("\n{sysctls}"));
    }
    out.push_str(&elsewhere(&placed, is_here, "--format systemd"));
    out
}
