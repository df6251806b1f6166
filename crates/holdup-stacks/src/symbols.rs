//! Functions by name: `.symtab`, else `.dynsym`.

use holdup_model::MemoryBudget;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSymbol as _, SymbolKind};

/// One named range of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Symbol {
    address: u64,
    end: u64,
    name: (u32, u32),
}

/// The functions of a file, by address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Symbols {
    /// Sorted by address, each address once.
    symbols: Vec<Symbol>,
    names: String,
}

/// Symbols before an address that may reach over it: functions hardly lie inside others.
const NESTED: usize = 8;
/// Longer names are cut short by leaving the symbol out; none of a compiler's are.
const LONGEST_NAME: usize = 65_536;
/// All names of one file, bytes. Files that have more are made to do harm.
const MOST_NAMES: usize = 256 << 20;
/// Memory of a symbol while symbols are sorted, bytes; the time for it grows with it.
const SYMBOL_BYTES: u64 = 192;

impl Symbols {
    /// Reads the functions of a file. `reach` gives the end of a function without a size, from its unwind information.
    /// Functions that the budget has no memory for are left out.
    pub(crate) fn of(
        file: &ElfFile64<'_, LittleEndian>,
        reach: impl Fn(u64) -> Option<u64>,
        budget: &MemoryBudget,
    ) -> Self {
        let mut found = Self::default();
        let mut all: Vec<(Symbol, u32)> = Vec::new();
        let tables = [file.symbols(), file.dynamic_symbols()];
        for symbol in tables.into_iter().flatten() {
            if symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
                continue;
            }
            let Ok(name) = symbol.name() else { continue };
            // Tables of debug files have versions behind the names (`memcpy@@GLIBC_2.14`).
            let name = name.split_once('@').map_or(name, |(name, _)| name);
            let address = symbol.address();
            let end = match symbol.size() {
                0 => reach(address),
                size => address.checked_add(size),
            };
            let end = end.or_else(|| address.checked_add(1));
            let (Some(end), false, true) = (end, name.is_empty(), name.len() < LONGEST_NAME) else { continue };
            let taken = budget.take(SYMBOL_BYTES + 2 * name.len() as u64).ok();
            let Some(kept) = taken.and_then(|()| found.keep(name)) else { break };
            // Of several names of one function: a global one, the plainest, the first by alphabet.
            let rank = 2 * u32::from(symbol.is_local()) + u32::from(symbol.is_weak());
            all.push((Symbol { address, end, name: kept }, rank));
        }
        let plainness = |symbol: &Symbol| {
            let name = found.slice(symbol.name);
            name.len() - name.trim_start_matches('_').len()
        };
        all.sort_by(|(a, a_rank), (b, b_rank)| {
            (a.address, a_rank, plainness(a))
                .cmp(&(b.address, b_rank, plainness(b)))
                .then_with(|| found.slice(a.name).cmp(found.slice(b.name)))
        });
        let mut symbols: Vec<Symbol> = all.into_iter().map(|(symbol, _)| symbol).collect();
        symbols.dedup_by(|later, first| {
            let same = later.address == first.address;
            if same {
                first.end = first.end.max(later.end);
            }
            same
        });
        symbols.shrink_to_fit();
        found.symbols = symbols;
        found
    }

    fn keep(&mut self, name: &str) -> Option<(u32, u32)> {
        if self.names.len() + name.len() > MOST_NAMES {
            return None;
        }
        let begin = u32::try_from(self.names.len()).ok()?;
        self.names.push_str(name);
        Some((begin, u32::try_from(name.len()).ok()?))
    }

    fn slice(&self, (begin, length): (u32, u32)) -> &str {
        let begin = begin as usize;
        self.names.get(begin..begin + length as usize).unwrap_or_default()
    }

    /// The function that covers an address.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let mut before = self.symbols[..after].iter().rev().take(NESTED);
        before.find(|symbol| address < symbol.end).map(|symbol| self.slice(symbol.name))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// Memory, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.symbols.capacity() * size_of::<Symbol>() + self.names.capacity()) as u64
    }
}
