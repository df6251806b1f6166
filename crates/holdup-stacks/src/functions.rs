//! Where functions begin and end, and how to leave them, by their unwind information.

use gimli::{
    AArch64, BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, EndianSlice, EvaluationResult,
    FrameDescriptionEntry, LittleEndian, Location, Piece, Register, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection as _, Value, Vendor, X86_64,
};
use holdup_model::MemoryBudget;
use holdup_model::sections::Machine;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;
/// Memory for reading rules.
pub(crate) type Context = UnwindContext<usize>;

/// The functions that `.eh_frame` describes, sorted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Functions {
    ranges: Vec<Function>,
    bases: BaseAddresses,
    machine: Machine,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Function {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// Its entry in `.eh_frame`.
    entry: u32,
}

/// How the caller of a function is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// There is no rule.
    Unknown,
    /// Fixed offsets from the stack or the base pointer, which the unwinder knows; or there is no caller.
    Plain,
    /// By its entry, as far as that says: frames of signals, stacks that were aligned anew, hand-written code; on arm64 every one.
    ByEntry,
}

/// The registers that are followed from function to function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    pub(crate) bp: u64,
    /// What the register of return addresses has (arm64); `None` up the stack, where calls have overwritten it.
    pub(crate) lr: Option<u64>,
}

/// Above these bits of a return address is its signature, where code signs it (arm64, pointer authentication).
const ADDRESS_BITS: u64 = (1 << 48) - 1;

/// The registers that are followed, as unwind information numbers them (psABI AMD64, 3.6.2; DWARF for the Arm 64-bit
/// Architecture, 4.1).
struct Numbers {
    stack: Register,
    frame: Register,
    return_address: Register,
}

fn numbers(machine: Machine) -> Numbers {
    match machine {
        Machine::X86_64 => Numbers { stack: X86_64::RSP, frame: X86_64::RBP, return_address: X86_64::RA },
        Machine::Aarch64 => Numbers { stack: AArch64::SP, frame: AArch64::X29, return_address: AArch64::X30 },
    }
}

/// Memory of a function while functions are sorted, bytes; the time for it grows with it.
const FUNCTION_BYTES: u64 = 96;

/// Steps of an expression, at most.
const MOST_STEPS: u32 = 200;

impl Functions {
    /// Reads them up to the first entry that cannot be understood, or that the budget has no memory for.
    pub(crate) fn of(eh_frame: &[u8], bases: BaseAddresses, machine: Machine, budget: &MemoryBudget) -> Self {
        let section = section(eh_frame, machine);
        let mut entries = section.entries(&bases);
        let mut ranges = Vec::new();
        let mut cie = None;
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let parsed = partial.parse(|section, bases, offset: EhFrameOffset| match &cie {
                Some((known, parsed)) if *known == offset => Ok(Clone::clone(parsed)),
                _ => {
                    let parsed = section.cie_from_offset(bases, offset)?;
                    cie = Some((offset, parsed.clone()));
                    Ok(parsed)
                }
            });
            let Ok(fde) = parsed else { continue };
            let (begin, length) = (fde.initial_address(), fde.len());
            // The linker leaves entries of discarded functions at address 0.
            if let (Some(end), Ok(entry)) = (begin.checked_add(length), u32::try_from(fde.offset()))
                && begin != 0
                && length != 0
            {
                if budget.take(FUNCTION_BYTES).is_err() {
                    break;
                }
                ranges.push(Function { begin, end, entry });
            }
        }
        ranges.sort_unstable();
        ranges.dedup_by_key(|function| (function.begin, function.end));
        ranges.shrink_to_fit();
        Functions { ranges, bases, machine }
    }

    /// The function that covers an address.
    pub(crate) fn find(&self, address: u64) -> Option<Function> {
        let after = self.ranges.partition_point(|function| function.begin <= address);
        let function = self.ranges.get(after.checked_sub(1)?)?;
        (address < function.end).then_some(*function)
    }

    /// How to leave the function at an address.
    pub(crate) fn leaving(&self, eh_frame: &[u8], address: u64, context: &mut Context) -> Leaving {
        let Some(function) = self.find(address) else { return Leaving::Unknown };
        if self.machine == Machine::Aarch64 {
            return Leaving::ByEntry;
        }
        let section = section(eh_frame, self.machine);
        let Some(fde) = self.entry(&section, function) else { return Leaving::Unknown };
        let Ok(row) = fde.unwind_info_for_address(&section, &self.bases, context, address) else {
            return Leaving::Unknown;
        };
        if matches!(row.register(X86_64::RA), None | Some(RegisterRule::Undefined)) {
            return Leaving::Plain;
        }
        let is_plain_cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => match *register {
                X86_64::RSP => (0..=0x7_ffff).contains(offset),
                // The unwinder takes other offsets from the base pointer only with another rule for it.
                X86_64::RBP => *offset == 16 && row.register(X86_64::RBP) == Some(RegisterRule::Offset(-16)),
                _ => return Leaving::Unknown,
            },
            CfaRule::Expression(_) => false,
        };
        let is_plain_return = row.register(X86_64::RA) == Some(RegisterRule::Offset(-8));
        let is_plain_bp = match row.register(X86_64::RBP) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => true,
            Some(RegisterRule::Offset(offset)) => (-0x3_ffff..=0x3_ffff).contains(&offset),
            Some(_) => false,
        };
        match is_plain_cfa && is_plain_return && is_plain_bp && !fde.is_signal_trampoline() {
            true => Leaving::Plain,
            false => Leaving::ByEntry,
        }
    }

    /// Leaves a function by its entry. `None` when they cannot be followed; `Some(None)` at the
    /// outermost function. The truth value is whether the caller was interrupted, so that its instruction pointer is no
    /// return address.
    pub(crate) fn leave(
        &self,
        eh_frame: &[u8],
        address: u64,
        from: State,
        context: &mut Context,
        read: &mut dyn FnMut(u64) -> Result<u64, ()>,
    ) -> Option<Option<(State, bool)>> {
        let section = section(eh_frame, self.machine);
        let fde = self.entry(&section, self.find(address)?)?;
        let row = fde.unwind_info_for_address(&section, &self.bases, context, address).ok()?;
        let mut leaving = Expressions { section: &section, fde: &fde, from, machine: self.machine, read };
        let Numbers { stack, frame, return_address } = numbers(self.machine);
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                leaving.register(*register)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => leaving.evaluate(expression, None)?,
        };
        let ip = match (row.register(return_address), self.machine) {
            (Some(RegisterRule::Undefined), _) | (None, Machine::X86_64) => return Some(None),
            // Compilers have no rule for a register that still has its value.
            (None | Some(RegisterRule::SameValue), Machine::Aarch64) => from.lr? & ADDRESS_BITS,
            (Some(rule), Machine::Aarch64) => leaving.value(&rule, cfa, from.lr.unwrap_or(0))? & ADDRESS_BITS,
            (Some(rule), Machine::X86_64) => leaving.value(&rule, cfa, from.ip)?,
        };
        let mut of = |register, own, otherwise| match row.register(register) {
            None => Some(otherwise),
            Some(rule) => leaving.value(&rule, cfa, own),
        };
        let sp = of(stack, from.sp, cfa)?;
        let bp = of(frame, from.bp, from.bp)?;
        if ip == 0 {
            return Some(None);
        }
        Some(Some((State { ip, sp, bp, lr: None }, fde.is_signal_trampoline())))
    }

    fn entry<'a>(&self, section: &EhFrame<Bytes<'a>>, function: Function) -> Option<FrameDescriptionEntry<Bytes<'a>>> {
        let offset = EhFrameOffset(usize::try_from(function.entry).ok()?);
        section.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset).ok()
    }

    /// Memory, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.ranges.capacity() * size_of::<Function>()) as u64
    }
}

fn section(eh_frame: &[u8], machine: Machine) -> EhFrame<Bytes<'_>> {
    let mut section = EhFrame::new(eh_frame, LittleEndian);
    section.set_address_size(8);
    if machine == Machine::Aarch64 {
        section.set_vendor(Vendor::AArch64);
    }
    section
}

/// Evaluates the expressions of one row.
struct Expressions<'s, 'data, 'read> {
    section: &'s EhFrame<Bytes<'data>>,
    fde: &'s FrameDescriptionEntry<Bytes<'data>>,
    from: State,
    machine: Machine,
    read: &'read mut dyn FnMut(u64) -> Result<u64, ()>,
}

impl Expressions<'_, '_, '_> {
    fn register(&self, register: Register) -> Option<u64> {
        let Numbers { stack, frame, return_address } = numbers(self.machine);
        match register {
            number if number == stack => Some(self.from.sp),
            number if number == frame => Some(self.from.bp),
            number if number == return_address => {
                self.from.lr.or((self.machine == Machine::X86_64).then_some(self.from.ip))
            }
            _ => None,
        }
    }

    /// A register's value in the caller; `own` is the one in the function.
    fn value(&mut self, rule: &RegisterRule<usize>, cfa: u64, own: u64) -> Option<u64> {
        match rule {
            RegisterRule::Undefined | RegisterRule::SameValue => Some(own),
            RegisterRule::Offset(offset) => (self.read)(cfa.wrapping_add_signed(*offset)).ok(),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Register(register) => self.register(*register),
            RegisterRule::Expression(expression) => {
                let at = self.evaluate(expression, Some(cfa))?;
                (self.read)(at).ok()
            }
            RegisterRule::ValExpression(expression) => self.evaluate(expression, Some(cfa)),
            _ => None,
        }
    }

    fn evaluate(&mut self, expression: &UnwindExpression<usize>, initial: Option<u64>) -> Option<u64> {
        let expression = expression.get(self.section).ok()?;
        let mut evaluation = expression.evaluation(self.fde.cie().encoding());
        evaluation.set_max_iterations(MOST_STEPS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory { address, size: 8, space: None, .. } => {
                    let value = (self.read)(address).ok()?;
                    evaluation.resume_with_memory(Value::Generic(value)).ok()?
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.register(register)?;
                    evaluation.resume_with_register(Value::Generic(value)).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result() {
            [Piece { location: Location::Address { address }, .. }] => Some(*address),
            _ => None,
        }
    }
}
