//! Names as their languages write them.

/// Longer names are left as the linker knows them: demangling may multiply their length.
const LONGEST: usize = 4096;

/// The name in the source; itself where no language is known that mangles so.
pub(crate) fn demangled(name: &str) -> String {
    if name.len() > LONGEST {
        return name.to_owned();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // Without the hash, which differs between builds.
        let plain = format!("{rust:#}");
        return if plain.len() > LONGEST { name.to_owned() } else { plain };
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(plain) = symbol.demangle()
        && plain.len() <= LONGEST
    {
        return plain;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::demangled;

    #[test]
    fn names_of_three_languages() {
        assert_eq!(demangled("s_lock"), "s_lock");
        assert_eq!(
            demangled("_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE"),
            "core::fmt::Formatter::write_str"
        );
        assert_eq!(
            demangled("_ZNSt6vectorIiSaIiEE9push_backEOi"),
            "std::vector<int, std::allocator<int> >::push_back(int&&)"
        );
        assert_eq!(demangled("_Z"), "_Z");
        let long = "_Z".repeat(5000);
        assert_eq!(demangled(&long), long);
    }
}
