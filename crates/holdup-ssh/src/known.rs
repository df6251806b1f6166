//! The hosts that have a copy of holdup, for `holdup hosts clean`: a line each in holdup's own folder.

use crate::address::Address;
use holdup_host::{Host, state};
use holdup_model::Problem;
use std::collections::BTreeSet;

fn path() -> String {
    format!("{}/hosts", state::dir())
}

/// The hosts that this user has put copies on.
pub fn known(host: &Host) -> BTreeSet<Address> {
    let bytes = host.read_own(&path()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().filter_map(|line| Address::parse(line).ok()).collect()
}

/// Writes down that a host has a copy.
///
/// # Errors
/// When holdup's own folder cannot be written.
pub fn remember(host: &Host, address: &Address) -> Result<(), Problem> {
    let mut all = known(host);
    if all.insert(address.clone()) { write(host, &all) } else { Ok(()) }
}

/// Writes down that hosts have none any more.
///
/// # Errors
/// When holdup's own folder cannot be written.
pub fn forget(host: &Host, addresses: &[Address]) -> Result<(), Problem> {
    let mut all = known(host);
    all.retain(|known| !addresses.contains(known));
    write(host, &all)
}

fn write(host: &Host, all: &BTreeSet<Address>) -> Result<(), Problem> {
    let text: String = all.iter().map(|address| format!("{address}\n")).collect();
    Ok(host.replace_synced(&path(), text.as_bytes())?)
}
