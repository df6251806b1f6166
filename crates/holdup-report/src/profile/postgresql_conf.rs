//! The settings of a profile for a PostgreSQL server: a file for `include_dir`.

use super::{elsewhere, head, is_plain_value, one_line, placed, postgres_quoted};
use holdup_model::Profile;
use holdup_model::profile::Destination;

/// The settings of a server, and as comments what is none. `destinations` says where each setting lives, in their order.
pub fn postgresql_conf(profile: &Profile, destinations: &[Vec<Destination>]) -> String {
    let placed = placed(profile, destinations);
    let go = format!(
        "Put it into the folder that include_dir in postgresql.conf names, as {}.conf; then reload the server, or start \
         it anew where a setting needs that.",
        profile.name
    );
    let mut out = head(profile, "postgresql.conf", &[go]);
    let is_here =
        |destination: &Destination| matches!(destination, Destination::Postgres { name, .. } if is_plain_value(name));
    let settings: Vec<String> = placed
        .iter()
        .filter_map(|(_, destination)| match destination {
            Some(Destination::Postgres { name, value }) if is_plain_value(name) => {
                Some(format!("{} = {}\n", one_line(name), postgres_quoted(value)))
            }
            _ => None,
        })
        .collect();
    if !settings.is_empty() {
        out.push_str(&format!("\n{}", settings.concat()));
    }
    out.push_str(&elsewhere(&placed, is_here, "--format systemd"));
    out
}
