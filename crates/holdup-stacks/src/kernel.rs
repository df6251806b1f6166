//! The kernel's functions, from the text of /proc/kallsyms.

/// Text symbols of the kernel and its modules, by address.
#[derive(Debug, Clone, Default)]
pub struct KernelSymbols {
    /// Sorted by address.
    symbols: Vec<Symbol>,
    /// Names and modules, one after the other.
    text: String,
}

#[derive(Debug, Clone, Copy)]
struct Symbol {
    address: u64,
    name: (u32, u32),
    /// Zero long for the kernel proper.
    module: (u32, u32),
}

/// The last function of a module or of the kernel ends at the end of its page at the latest.
const PAGE: u64 = 4096;

impl KernelSymbols {
    /// Reads `address type name [module]` lines (kernel/kallsyms.c:s_show); lines of another form are left out.
    /// Addresses that are hidden from the reader (`kernel.kptr_restrict`) are all zero: nothing is known then.
    pub fn parse(kallsyms: &str) -> Self {
        let mut known = KernelSymbols::default();
        for line in kallsyms.lines() {
            let mut parts = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (parts.next(), parts.next(), parts.next()) else { continue };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let module = parts.next().unwrap_or_default().trim_matches(['[', ']']);
            let (Some(name), Some(module)) = (known.keep(name), known.keep_again(module)) else { break };
            known.symbols.push(Symbol { address, name, module });
        }
        // Of several names of one address the first one stays the first.
        known.symbols.sort_by_key(|symbol| symbol.address);
        known
    }

    fn keep(&mut self, text: &str) -> Option<(u32, u32)> {
        let begin = u32::try_from(self.text.len()).ok()?;
        self.text.push_str(text);
        Some((begin, u32::try_from(text.len()).ok()?))
    }

    /// Symbols of one module stand together, so that its name is kept once.
    fn keep_again(&mut self, module: &str) -> Option<(u32, u32)> {
        match self.symbols.last() {
            _ if module.is_empty() => Some((0, 0)),
            Some(last) if self.slice(last.module) == module => Some(last.module),
            _ => self.keep(module),
        }
    }

    fn slice(&self, (begin, length): (u32, u32)) -> &str {
        let begin = begin as usize;
        self.text.get(begin..begin + length as usize).unwrap_or_default()
    }

    /// True if no symbol is known.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The function at an address, and its module unless it is in the kernel proper.
    ///
    /// Symbols have no sizes here: a function reaches to the next symbol of its module; the last one of a module, or one
    /// that is followed by `_etext`, to the end of its page.
    pub fn find(&self, address: u64) -> Option<(&str, Option<&str>)> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let here = self.symbols.get(after.checked_sub(1)?)?;
        let module = self.slice(here.module);
        let follows = self.symbols.get(after).is_some_and(|next| self.slice(next.module) == module);
        let begins = self.symbols.partition_point(|symbol| symbol.address < here.address);
        let first = self.symbols.get(begins).unwrap_or(here);
        let ends = (here.address | (PAGE - 1)).saturating_add(1);
        let is_end = matches!(self.slice(first.name), "_etext" | "_einittext");
        if is_end || (!follows && address >= ends) {
            return None;
        }
        Some((self.slice(first.name), (!module.is_empty()).then_some(module)))
    }

    /// Memory, bytes.
    pub fn bytes(&self) -> u64 {
        (self.symbols.capacity() * size_of::<Symbol>() + self.text.capacity()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::KernelSymbols;

    const TEXT: &str = "ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000100 t do_one\n\
                        ffffffff81000200 T do_two\nffffffff81000180 D some_data\nffffffff81002000 T _etext\n\
                        garbage\nzzzz T no\nffffffffc0000000 t first\t[nf_tables]\nffffffffc0000040 t last\t[nf_tables]\n\
                        ffffffffc0100000 t other\t[xt]\n";

    #[test]
    fn functions_reach_to_the_next_of_their_own_module() {
        let symbols = KernelSymbols::parse(TEXT);
        let find = |address| symbols.find(address);
        assert_eq!(find(0xffff_ffff_8100_0000), Some(("_stext", None)));
        assert_eq!(find(0xffff_ffff_8100_01ff), Some(("do_one", None)));
        assert_eq!(find(0xffff_ffff_8100_1fff), Some(("do_two", None)));
        assert_eq!(find(0xffff_ffff_8100_2000), None);
        assert_eq!(find(0xffff_ffff_c000_003f), Some(("first", Some("nf_tables"))));
        assert_eq!(find(0xffff_ffff_c000_0fff), Some(("last", Some("nf_tables"))));
        assert_eq!(find(0xffff_ffff_c000_1000), None, "past the page of the module's last function");
        assert_eq!(find(0xffff_ffff_c010_0010), Some(("other", Some("xt"))));
        assert_eq!(find(0xffff_ffff_c010_1000), None);
        assert_eq!(find(0x1000), None);
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        assert!(KernelSymbols::parse("0000000000000000 T _stext\n0000000000000000 t do_one\n").is_empty());
    }
}
