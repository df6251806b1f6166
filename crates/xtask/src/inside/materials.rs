//! The components as a software bill of materials (CycloneDX 1.6, JSON).

use super::{Component, PROGRAM};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The document, the same bytes for the same components.
pub(super) fn document(all: &[Component], licence: &str, timestamp: &str) -> Result<String> {
    let program = all.iter().find(|c| c.name == PROGRAM).context("the program is no component")?;
    let others: Vec<&Component> = all.iter().filter(|c| c.name != PROGRAM).collect();
    let beside = others.iter().filter(|c| c.kind != "cargo").map(|c| c.id());
    let dependencies = all.iter().map(|c| match c.name == PROGRAM {
        true => {
            json!({"ref": c.id(), "dependsOn": c.depends_on.iter().cloned().chain(beside.clone()).collect::<Vec<_>>()})
        }
        false => json!({"ref": c.id(), "dependsOn": c.depends_on}),
    });
    let mut document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": timestamp,
            "component": {
                "type": "application",
                "bom-ref": program.id(),
                "name": program.name,
                "version": program.version,
                "licenses": [{"expression": licence}],
            },
        },
        "components": others.iter().map(|c| component(c)).collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    });
    document["serialNumber"] = format!("urn:uuid:{}", uuid(&document)).into();
    Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
}

fn component(c: &Component) -> Value {
    let name = c.name.replace('@', "%40");
    let mut value = json!({
        "type": "library",
        "bom-ref": c.id(),
        "name": c.name,
        "version": c.version,
        "licenses": [{"expression": c.licence}],
        "purl": format!("pkg:{}/{name}@{}", c.kind, c.version.replace('+', "%2B")),
    });
    if let Some(sum) = &c.sha256 {
        value["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    value
}

/// A UUID of version 8 (RFC 9562) from what the document says.
fn uuid(document: &Value) -> String {
    let mut bytes: [u8; 32] = Sha256::digest(document.to_string()).into();
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Component> {
        let one = |name: &str, kind, on: &[&str]| Component {
            name: name.to_owned(),
            version: "1.0.0+x".to_owned(),
            licence: "MIT".to_owned(),
            kind,
            depends_on: on.iter().map(|on| (*on).to_owned()).collect(),
            ..Component::default()
        };
        vec![one(PROGRAM, "cargo", &["a@1.0.0+x"]), one("a", "cargo", &[]), one("@b/c", "npm", &[])]
    }

    #[test]
    fn every_component_is_listed_and_referred_to() {
        let text = document(&all(), "MIT", "2026-11-28T00:00:00Z").expect("is made");
        let value: Value = serde_json::from_str(&text).expect("is JSON");
        assert_eq!(value["components"][1]["purl"], "pkg:npm/%40b/c@1.0.0%2Bx");
        assert_eq!(value["dependencies"][0]["dependsOn"], json!(["a@1.0.0+x", "@b/c@1.0.0+x"]));
        assert_eq!(text, document(&all(), "MIT", "2026-11-28T00:00:00Z").expect("is made"));
        assert_ne!(text, document(&all(), "MIT", "2026-11-29T00:00:00Z").expect("is made"));
    }

    #[test]
    fn the_serial_number_is_a_uuid_of_version_8() {
        let uuid = uuid(&json!({}));
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid[14..15], "8");
    }
}
