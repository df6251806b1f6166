//! The key of a build: a hash over all its inputs.

use super::patches::Patch;
use crate::files::hex;
use sha2::{Digest, Sha256};

/// The inputs of a build.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ingredients<'a> {
    /// A package's name and version, or a tree's state.
    pub(super) source: &'a str,
    /// As `uname -m` prints it.
    pub(super) arch: &'a str,
    /// The whole requested configuration.
    pub(super) config: &'a str,
    pub(super) patches: &'a [Patch],
    /// The versions of compiler and linker.
    pub(super) tools: &'a str,
}

impl Ingredients<'_> {
    /// SHA-256 in hexadecimal, over each part with its length, so that different lists hash different bytes.
    pub(super) fn key(&self) -> String {
        // The number changes with the build's environment or targets.
        let mut parts = vec!["holdup build 1", self.source, self.arch, self.config, self.tools];
        parts.extend(self.patches.iter().map(|patch| patch.sha256.as_str()));
        hash(&parts)
    }
}

/// SHA-256 in hexadecimal over each part with its length.
pub(super) fn hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hex(&hash.finalize())
}

pub(super) fn hex_digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn patch(sha256: &str) -> Patch {
        Patch { name: String::new(), bytes: Vec::new(), sha256: sha256.to_owned(), touches: BTreeSet::new() }
    }

    #[test]
    fn each_ingredient_changes_the_key_and_the_same_give_the_same() {
        let (one, two) = ([patch("1")], [patch("1"), patch("2")]);
        let base = Ingredients { source: "s", arch: "x86_64", config: "C", patches: &one, tools: "gcc 12" };
        let all = [
            base,
            Ingredients { source: "s2", ..base },
            Ingredients { arch: "aarch64", ..base },
            Ingredients { config: "Cx", ..base },
            Ingredients { patches: &two, ..base },
            Ingredients { patches: &[], ..base },
            Ingredients { tools: "gcc 14", ..base },
            // The same bytes, divided differently.
            Ingredients { source: "sx", arch: "86_64", ..base },
        ];
        let mut keys: Vec<String> = all.iter().map(Ingredients::key).collect();
        assert_eq!(keys[0], base.key());
        assert!(keys.iter().all(|key| key.len() == 64));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all.len());
    }

    #[test]
    fn the_order_of_patches_matters() {
        let key = |patches: &[Patch]| Ingredients { source: "", arch: "", config: "", patches, tools: "" }.key();
        assert_ne!(key(&[patch("1"), patch("2")]), key(&[patch("2"), patch("1")]));
    }
}
