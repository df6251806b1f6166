//! A profile for systemd-sysctl: sysctl.d(5).

use super::{elsewhere, head, is_plain_value, placed};
use holdup_model::Profile;
use holdup_model::profile::Place;

/// The sysctls of a profile, and as comments what is none. `places` says where each setting lives, in their order.
pub fn sysctl_d(profile: &Profile, places: &[Vec<Place>]) -> String {
    let placed = placed(profile, places);
    let name = &profile.name;
    let mut out = head(
        profile,
        "sysctl.d",
        &[format!("Put it into /etc/sysctl.d/90-{name}.conf; `sysctl --system` sets it now, the next boot again.")],
    );
    let is_here = |place: &Place| match place {
        Place::Sysctl { key, value } => is_plain_value(key) && is_plain_value(value),
        _ => false,
    };
    let mut sysctls = String::new();
    for (setting, place) in &placed {
        if let Some(Place::Sysctl { key, value }) = place.filter(|place| is_here(place)) {
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
