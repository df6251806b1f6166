//! What a page may do: show itself and run its own script.

use sha2::{Digest, Sha256};

/// The Content-Security-Policy of a page (W3C, CSP Level 3): nothing is loaded, no form is sent, and of all scripts only
/// this one runs, known by its SHA-256. Styles stand in the page and at its elements.
pub(crate) fn policy(script: Option<&str>) -> String {
    let scripts = script.map_or("'none'".to_owned(), |text| format!("'sha256-{}'", base64(&Sha256::digest(text))));
    format!(
        "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
         form-action 'none'"
    )
}

/// RFC 4648, 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().chain(&[0, 0]).take(3).fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        for place in 0..4 {
            let letter = LETTERS[bits >> (18 - 6 * place) & 63];
            out.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_script_with_this_sum_runs() {
        // RFC 4648, 10.
        for (text, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(text.as_bytes()), coded);
        }
        // The sum of nothing, which begins with e3b0c442 (FIPS 180-4).
        assert!(policy(Some("")).contains("script-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; "));
        assert!(policy(None).contains("default-src 'none'; script-src 'none'; "));
    }
}
