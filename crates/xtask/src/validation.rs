//! The parts of docs/simulator.md that are measured anew.

use anyhow::{Context, Result};
use std::path::Path;

/// The document, relative to the root.
pub const DOCUMENT: &str = "docs/simulator.md";

/// The document with a part of it replaced: what stands between `<!-- validation: NAME -->` and `<!-- end -->`.
pub fn put(document: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- validation: {name} -->\n"), "<!-- end -->");
    let missing = || format!("{DOCUMENT}: there is no part `{}` that ends with `{end}`", begin.trim());
    let from = document.find(&begin).with_context(missing)? + begin.len();
    let length = document[from..].find(end).with_context(missing)?;
    Ok(format!("{}\n{}\n\n{}", &document[..from], text.trim(), &document[from + length..]))
}

/// Writes a part into the document of the repository at `root`.
///
/// # Errors
/// When the document cannot be read or written, or has no such part.
pub fn write(root: &Path, name: &str, text: &str) -> Result<()> {
    let path = root.join(DOCUMENT);
    let document = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    std::fs::write(&path, put(&document, name, text)?).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_part_is_replaced() {
        let document = "a\n<!-- validation: x -->\nold\n<!-- end -->\nb\n<!-- validation: y -->\n<!-- end -->\n";
        let expect = "a\n<!-- validation: x -->\n\nnew\n\n<!-- end -->\nb\n<!-- validation: y -->\n<!-- end -->\n";
        let got = put(document, "x", "new\n").expect("it is there");
        assert_eq!(got, expect);
        assert_eq!(put(&got, "x", "new").expect("it is there"), expect, "once more");
        assert!(put(document, "z", "new").is_err());
        assert!(put("<!-- validation: x -->\nno end", "x", "new").is_err());
    }
}
