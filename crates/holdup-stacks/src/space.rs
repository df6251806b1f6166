//! What is mapped where in a process.

use crate::module::Module;
use framehop::Unwinder as _;
use framehop::x86_64::UnwinderX86_64;
use holdup_model::sections::Machine;
use std::sync::Arc;

/// Which module of a [`crate::Symbolizer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleId(pub(crate) u16);

/// Which address space of a [`crate::Symbolizer`]: processes with the same mappings share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpaceId(pub(crate) u32);

/// A range of addresses and the file behind it, as a line of /proc/PID/maps has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Where in the file `start` is, bytes.
    pub offset: u64,
    /// The file; `None` where it is not known, or code that was made at run time.
    pub module: Option<ModuleId>,
}

/// A place in code: a module and an address in it, or an address of the kernel, or nothing that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodeAddress(pub(crate) u64);

const ADDRESS_BITS: u32 = 48;
const KERNEL: u64 = 0xffff;

impl CodeAddress {
    pub(crate) const UNKNOWN: CodeAddress = CodeAddress(0);
    /// Module ids are one higher in a place, and the highest is the kernel.
    pub(crate) const MOST_MODULES: usize = KERNEL as usize - 1;

    fn in_module(module: ModuleId, address: u64) -> Option<Self> {
        (address >> ADDRESS_BITS == 0).then_some(CodeAddress((u64::from(module.0) + 1) << ADDRESS_BITS | address))
    }

    pub(crate) fn in_kernel(address: u64) -> Self {
        if address >> ADDRESS_BITS == KERNEL { CodeAddress(address) } else { CodeAddress::UNKNOWN }
    }

    pub(crate) fn what(self) -> What {
        match self.0 >> ADDRESS_BITS {
            0 => What::Unknown,
            KERNEL => What::Kernel(self.0),
            module => What::Module(ModuleId(module as u16 - 1), self.0 & ((1 << ADDRESS_BITS) - 1)),
        }
    }
}

/// What a [`CodeAddress`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Unknown,
    Kernel(u64),
    Module(ModuleId, u64),
}

/// The mappings of one or more processes, and how to unwind in them.
pub(crate) struct Space {
    mappings: Vec<Mapping>,
    pub(crate) unwinder: UnwinderX86_64<Arc<[u8]>>,
}

impl Space {
    /// Mappings must be sorted and must not overlap.
    pub(crate) fn new(mappings: Vec<Mapping>, modules: &[Module]) -> Self {
        let mut unwinder = UnwinderX86_64::new();
        for mapping in &mappings {
            let Some(module) = mapping.module.and_then(|id| modules.get(usize::from(id.0))) else { continue };
            if module.machine != Machine::X86_64 {
                continue;
            }
            // The unwinder takes no file that is mapped below the address that it gives itself.
            let Some(base) = module.address_of_mapping(mapping.offset).and_then(|own| mapping.start.checked_sub(own))
            else {
                continue;
            };
            let range = mapping.start..mapping.end;
            unwinder.add_module(framehop::Module::new(String::new(), range, base, module.section_info()));
        }
        Space { mappings, unwinder }
    }

    pub(crate) fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    pub(crate) fn place(&self, address: u64, modules: &[Module]) -> CodeAddress {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        let mapping = after.checked_sub(1).and_then(|at| self.mappings.get(at)).filter(|m| address < m.end);
        let found = mapping.and_then(|mapping| {
            let id = mapping.module?;
            let module = modules.get(usize::from(id.0))?;
            let own = module.address_of(mapping.offset.checked_add(address - mapping.start)?)?;
            CodeAddress::in_module(id, own)
        });
        found.unwrap_or(CodeAddress::UNKNOWN)
    }
}
