//! From samples to a profile.

use crate::debug;
use crate::functions::{Context, Leaving, State};
use crate::kernel::KernelSymbols;
use crate::module::Module;
use crate::space::{CodeAddress, Mapping, ModuleId, Space, SpaceId, What};
use crate::tree::Tree;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64};
use framehop::{FrameAddress, Unwinder as _};
use holdup_model::stacks::{Frame, FrameKind, Stack, StackProfile};
use std::collections::BTreeMap;

/// Which task name and role of a [`Symbolizer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(u32);

/// The registers that unwinding starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Base pointer; x29.
    pub bp: u64,
    /// What a call leaves the return address in (x30); `None` on x86-64.
    pub lr: Option<u64>,
}

/// What was seen of a task at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    pub task: TaskId,
    /// Its mappings; `None` when they are not known, or it is a thread of the kernel.
    pub space: Option<SpaceId>,
    /// Its registers in user mode; `None` for threads of the kernel.
    pub registers: Option<Registers>,
    /// Its stack from the stack pointer on, as far as it was copied.
    pub stack: &'a [u8],
    /// Where it was in the kernel: the instruction pointer, then return addresses, innermost first.
    pub kernel: &'a [u64],
    /// What it counts for.
    pub weight: u64,
}

/// A stack that was unwound.
#[derive(Debug, Clone)]
pub struct Followed {
    task: TaskId,
    places: Vec<CodeAddress>,
    /// True if it could be followed to its outermost function.
    pub is_complete: bool,
}

/// Deeper stacks are cut.
const DEEPEST: usize = 1024;
/// 24 bytes each and twice 4 for finding them.
const MOST_NODES: usize = 1 << 20;
/// Entries of the cache of addresses, a power of two.
const CACHED: usize = 8192;
/// The unwinder's cache has this many entries, found by the remainder of the address: too few for a database server, so
/// there are several caches, each for a part of the addresses.
const CACHE_ENTRIES: u64 = 509;
const CACHES: usize = 32;
/// Where the frame of a signal has x0 to x30, sp and pc on arm64: `uc_mcontext.regs` of `struct rt_sigframe` (arch/arm64/kernel/signal.c
/// and include/uapi/asm/sigcontext.h, 6.18). What else it has, such as the state of SVE, comes behind.
const SIGNAL_REGISTERS: u64 = 128 + 176 + 8;
/// Each takes about as much memory as the text of its mappings; the unwinder has room for 65,536.
const MOST_SPACES: usize = 2048;

impl Default for Symbolizer {
    fn default() -> Self {
        Self::new()
    }
}

/// An address that was looked up before.
#[derive(Clone, Copy)]
struct Cached {
    space: u32,
    address: u64,
    place: CodeAddress,
    leaving: Leaving,
}

/// Counts stacks, and gives their functions names in the end.
///
/// Samples are unwound when they are added, so that of a stack's bytes only addresses are kept, each distinct stack
/// once; names are looked up by [`Symbolizer::profile`], each address once.
pub struct Symbolizer {
    modules: Vec<Module>,
    spaces: Vec<Space>,
    by_mappings: BTreeMap<Vec<Mapping>, SpaceId>,
    tasks: Vec<(String, Option<String>)>,
    /// What stands below the outermost function of a task's stacks.
    roots: BTreeMap<TaskId, Frame>,
    by_name: BTreeMap<(String, Option<String>), TaskId>,
    tree: Tree,
    truncated: BTreeMap<TaskId, u64>,
    dropped: u64,
    caches: Vec<CacheX86_64>,
    context: Box<Context>,
    cached: Vec<Cached>,
    scratch: Vec<CodeAddress>,
}

impl Symbolizer {
    /// Without modules and stacks.
    pub fn new() -> Self {
        let nothing = Cached { space: u32::MAX, address: 0, place: CodeAddress::UNKNOWN, leaving: Leaving::Unknown };
        Symbolizer {
            modules: Vec::new(),
            spaces: Vec::new(),
            by_mappings: BTreeMap::new(),
            tasks: Vec::new(),
            roots: BTreeMap::new(),
            by_name: BTreeMap::new(),
            tree: Tree::new(MOST_NODES),
            truncated: BTreeMap::new(),
            dropped: 0,
            caches: (0..CACHES).map(|_| CacheX86_64::new()).collect(),
            context: Box::new(Context::new()),
            cached: vec![nothing; CACHED],
            scratch: Vec::new(),
        }
    }

    /// Makes a file known; `None` when there are too many (65,000).
    pub fn add_module(&mut self, module: Module) -> Option<ModuleId> {
        if self.modules.len() >= CodeAddress::MOST_MODULES {
            return None;
        }
        let id = ModuleId(u16::try_from(self.modules.len()).ok()?);
        self.modules.push(module);
        Some(id)
    }

    /// The modules in the order of their ids.
    pub fn modules_mut(&mut self) -> &mut [Module] {
        &mut self.modules
    }

    /// Makes the mappings of a process known. Of two that overlap the later one counts, as in mmap(2). The same mappings
    /// give the same id again, so that the children of a fork cost nothing. `None` when there are too many (2,048).
    pub fn add_space(&mut self, mappings: &[Mapping]) -> Option<SpaceId> {
        let mut mappings = without_overlaps(mappings);
        // So that code that is made at run time does not make new spaces again and again.
        mappings.retain(|mapping| mapping.module.is_some());
        if let Some(known) = self.by_mappings.get(&mappings) {
            return Some(*known);
        }
        if self.spaces.len() >= MOST_SPACES {
            return None;
        }
        let id = SpaceId(u32::try_from(self.spaces.len()).ok()?);
        self.spaces.push(Space::new(mappings.clone(), &self.modules));
        self.by_mappings.insert(mappings, id);
        Some(id)
    }

    pub fn mappings(&self, space: SpaceId) -> &[Mapping] {
        self.spaces.get(space.0 as usize).map_or(&[], Space::mappings)
    }

    /// The id of a task name with its role (`None` for tasks outside).
    pub fn task(&mut self, name: &str, role: Option<&str>) -> TaskId {
        let key = (name.to_owned(), role.map(str::to_owned));
        if let Some(known) = self.by_name.get(&key) {
            return *known;
        }
        let id = self.separate_task(name, role);
        self.by_name.insert(key, id);
        id
    }

    /// A new id for a task name with its role, so that [`Symbolizer::profile_of`] can separate its stacks from others of that
    /// name.
    pub fn separate_task(&mut self, name: &str, role: Option<&str>) -> TaskId {
        let id = TaskId(self.tasks.len() as u32);
        self.tasks.push((name.to_owned(), role.map(str::to_owned)));
        id
    }

    /// Puts a frame below the outermost function of all stacks of a task, which is no function: what it waited for.
    pub fn set_root(&mut self, task: TaskId, root: Frame) {
        self.roots.insert(task, root);
    }

    /// Unwinds a sample and counts its stack. Whether it could be followed to its outermost function.
    pub fn add_sample(&mut self, sample: &Sample<'_>) -> bool {
        let mut places = std::mem::take(&mut self.scratch);
        places.clear();
        let is_complete = self.follow_into(sample, &mut places);
        self.count(sample.task, &places, is_complete, sample.weight);
        self.scratch = places;
        is_complete
    }

    /// Unwinds a sample whose weight is not known yet.
    pub fn follow(&mut self, sample: &Sample<'_>) -> Followed {
        let mut places = Vec::new();
        let is_complete = self.follow_into(sample, &mut places);
        Followed { task: sample.task, places, is_complete }
    }

    /// Counts a stack that was unwound before.
    pub fn add_followed(&mut self, followed: &Followed, weight: u64) {
        self.count(followed.task, &followed.places, followed.is_complete, weight);
    }

    fn follow_into(&mut self, sample: &Sample<'_>, places: &mut Vec<CodeAddress>) -> bool {
        push_kernel(sample.kernel, places);
        match (sample.registers, sample.space) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(registers), Some(space)) => self.unwind(space, registers, sample.stack, places),
        }
    }

    fn place(&mut self, space: SpaceId, address: u64) -> (CodeAddress, Leaving) {
        let slot = (address ^ (address >> 13) ^ u64::from(space.0)) as usize & (CACHED - 1);
        let cached = &mut self.cached[slot];
        if cached.space == space.0 && cached.address == address {
            return (cached.place, cached.leaving);
        }
        let Some(known) = self.spaces.get(space.0 as usize) else { return (CodeAddress::UNKNOWN, Leaving::Unknown) };
        let place = known.place(address, &self.modules);
        let leaving = match place.what() {
            What::Module(id, own) => {
                let module = self.modules.get(usize::from(id.0));
                module.map_or(Leaving::Unknown, |module| module.leaving(own, &mut self.context))
            }
            What::Unknown | What::Kernel(_) => Leaving::Unknown,
        };
        *cached = Cached { space: space.0, address, place, leaving };
        (place, leaving)
    }

    /// Adds the places of a stack, innermost first; whether its outermost function was reached.
    fn unwind(&mut self, space: SpaceId, registers: Registers, stack: &[u8], places: &mut Vec<CodeAddress>) -> bool {
        let Registers { ip, sp, bp, lr } = registers;
        let mut address = FrameAddress::from_instruction_pointer(ip);
        let mut at = State { ip, sp, bp, lr };
        let mut read = |at: u64| -> Result<u64, ()> {
            let begin = at.checked_sub(sp).and_then(|begin| usize::try_from(begin).ok()).ok_or(())?;
            let bytes = stack.get(begin..).and_then(|rest| rest.first_chunk::<8>()).ok_or(())?;
            Ok(u64::from_le_bytes(*bytes))
        };
        for _ in 0..DEEPEST {
            let (place, leaving) = self.place(space, address.address_for_lookup());
            places.push(place);
            let caller = match leaving {
                Leaving::Unknown => self.leave_signal(space, at, places, &mut read),
                Leaving::Plain => self.leave_plainly(space, address, at, &mut read),
                Leaving::ByEntry => self.leave_by_entry(place, at, &mut read),
            };
            match caller {
                Some(None) => return true,
                // Each caller's part of the stack lies above, or has the same begin as that of a function that has none; what
                // does not is no stack.
                Some(Some((caller, is_interrupted)))
                    if caller.sp > at.sp || (caller.sp == at.sp && at.lr.is_some()) =>
                {
                    at = caller;
                    address = match FrameAddress::from_return_address(caller.ip) {
                        Some(address) if !is_interrupted => address,
                        _ => FrameAddress::from_instruction_pointer(caller.ip),
                    };
                }
                _ => return false,
            }
        }
        false
    }

    /// The outer `None` where the stack cannot be followed, the inner one at the outermost function.
    fn leave_plainly(
        &mut self,
        space: SpaceId,
        address: FrameAddress,
        from: State,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<Option<(State, bool)>> {
        // Where it knows no rule the unwinder would guess by the base pointer, and guesses give wrong callers: it is
        // only asked where there is one.
        let mut registers = UnwindRegsX86_64::new(from.ip, from.sp, from.bp);
        let unwinder = &self.spaces.get(space.0 as usize)?.unwinder;
        let cache = self.caches.get_mut((address.address() / CACHE_ENTRIES) as usize % CACHES)?;
        let caller = unwinder.unwind_frame(address, &mut registers, cache, read).ok()?;
        Some(caller.map(|ip| (State { ip, sp: registers.sp(), bp: registers.bp(), lr: None }, false)))
    }

    /// Leaves the frame of a signal, where a handler returns on arm64, for what it interrupted. Nothing else describes it.
    fn leave_signal(
        &self,
        space: SpaceId,
        from: State,
        places: &mut [CodeAddress],
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<Option<(State, bool)>> {
        // The function begins where the handler returns to, so the address before it belongs to another one.
        let place = self.spaces.get(space.0 as usize)?.place(from.ip, &self.modules);
        let What::Module(id, own) = place.what() else { return None };
        if !self.modules.get(usize::from(id.0))?.is_signal_return(own) {
            return None;
        }
        *places.last_mut()? = place;
        let mut register = |number: u64| read(from.sp.wrapping_add(SIGNAL_REGISTERS + 8 * number)).ok();
        let (bp, lr) = (register(29)?, register(30)?);
        let (sp, ip) = (register(31)?, register(32)?);
        Some(Some((State { ip, sp, bp, lr: Some(lr) }, true)))
    }

    fn leave_by_entry(
        &mut self,
        place: CodeAddress,
        from: State,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<Option<(State, bool)>> {
        let What::Module(id, own) = place.what() else { return None };
        self.modules.get(usize::from(id.0))?.leave(own, from, &mut self.context, read)
    }

    fn count(&mut self, task: TaskId, places: &[CodeAddress], is_complete: bool, weight: u64) {
        let end = self.path(task, places, is_complete);
        match end {
            Some(end) => {
                self.tree.add(end, weight);
                if !is_complete {
                    let truncated = self.truncated.entry(task).or_default();
                    *truncated = truncated.saturating_add(weight);
                }
            }
            None => self.dropped = self.dropped.saturating_add(weight),
        }
    }

    fn path(&mut self, task: TaskId, places: &[CodeAddress], is_complete: bool) -> Option<u32> {
        let mut at = self.tree.step(None, u64::from(task.0))?;
        if !is_complete && places.last() != Some(&CodeAddress::UNKNOWN) {
            at = self.tree.step(Some(at), CodeAddress::UNKNOWN.0)?;
        }
        for place in places.iter().rev() {
            at = self.tree.step(Some(at), place.0)?;
        }
        Some(at)
    }

    /// Forgets what was counted; files, mappings and tasks stay known.
    pub fn clear(&mut self) {
        self.tree = Tree::new(MOST_NODES);
        self.truncated.clear();
        self.dropped = 0;
    }

    /// Forgets tasks too, and what was counted of them: no [`TaskId`] or [`Followed`] from before is of use after it.
    pub fn forget_tasks(&mut self) {
        self.clear();
        self.tasks.clear();
        self.roots.clear();
        self.by_name.clear();
    }

    /// The number of tasks that are known.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Weight that was not counted because there are more distinct stacks than are kept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Memory, bytes.
    pub fn bytes(&self) -> u64 {
        let modules: u64 = self.modules.iter().map(Module::bytes).sum();
        let spaces: usize = self.spaces.iter().map(|space| space.mappings().len()).sum();
        // Its own copy, that of the map by mappings, and the unwinder's.
        modules + (spaces * 4 * size_of::<Mapping>()) as u64 + self.tree.bytes() + (CACHED * size_of::<Cached>()) as u64
    }

    /// What was counted so far, with names. `name`, `unit` and `period_ns` are those of [`StackProfile`].
    pub fn profile(&self, kernel: &KernelSymbols, name: &str, unit: &str, period_ns: u64) -> StackProfile {
        self.profile_of(|_| true, kernel, name, unit, period_ns)
    }

    /// The same of some tasks.
    pub fn profile_of(
        &self,
        is_selected: impl Fn(TaskId) -> bool,
        kernel: &KernelSymbols,
        name: &str,
        unit: &str,
        period_ns: u64,
    ) -> StackProfile {
        let mut names = Names::new(self, kernel);
        // A parent comes before its children, so that its path is known when theirs are asked for.
        let nodes = self.tree.nodes();
        let mut merged: BTreeMap<(u32, Vec<u32>), u64> = BTreeMap::new();
        let mut path = Vec::new();
        for (id, node) in nodes.iter().enumerate().filter(|(_, node)| node.weight > 0) {
            path.clear();
            let mut at = id;
            let mut current = node;
            while current.parent as usize != at {
                path.push(CodeAddress(current.step));
                at = current.parent as usize;
                current = &nodes[at];
            }
            let task = TaskId(current.step as u32);
            if !is_selected(task) {
                continue;
            }
            let root = self.roots.get(&task).map(|root| names.intern(root.clone()));
            let called = path.iter().rev().flat_map(|place| names.frames(*place).to_vec());
            let frames: Vec<u32> = root.into_iter().chain(called).collect();
            let weight = merged.entry((current.step as u32, frames)).or_default();
            *weight = weight.saturating_add(node.weight);
        }
        let mut stacks: Vec<Stack> = merged
            .into_iter()
            .map(|((task, frames), weight)| {
                let (task, role) = self.tasks.get(task as usize).cloned().unwrap_or_default();
                Stack { task, role, frames, weight }
            })
            .collect();
        stacks.sort_by_key(|stack| std::cmp::Reverse(stack.weight));
        StackProfile {
            name: name.to_owned(),
            unit: unit.to_owned(),
            period_ns,
            frames: names.frames,
            stacks,
            truncated: self.truncated.iter().filter(|(task, _)| is_selected(**task)).map(|(_, weight)| weight).sum(),
        }
    }
}

/// Of two mappings that overlap the later one counts.
fn without_overlaps(mappings: &[Mapping]) -> Vec<Mapping> {
    let mut kept: Vec<Mapping> = Vec::with_capacity(mappings.len());
    for new in mappings.iter().filter(|mapping| mapping.start < mapping.end) {
        // Most come in order.
        if kept.last().is_some_and(|last| last.end > new.start) {
            let parts = std::mem::take(&mut kept).into_iter().flat_map(|old| {
                let before = Mapping { end: old.end.min(new.start), ..old };
                let skipped = new.end.saturating_sub(old.start);
                let start = old.start.max(new.end);
                let after = Mapping { start, offset: old.offset.saturating_add(skipped), ..old };
                let after = if skipped == 0 { Mapping { offset: old.offset, ..after } } else { after };
                [before, after]
            });
            kept = parts.filter(|part| part.start < part.end).collect();
        }
        kept.push(*new);
        if kept.len() > 1 && kept[kept.len() - 2].start > new.start {
            kept.sort_unstable();
        }
    }
    kept
}

fn push_kernel(addresses: &[u64], places: &mut Vec<CodeAddress>) {
    for (index, address) in addresses.iter().take(DEEPEST).enumerate() {
        places.push(CodeAddress::in_kernel(if index == 0 { *address } else { address.saturating_sub(1) }));
    }
}

/// Gives names to places, each once.
struct Names<'a> {
    from: &'a Symbolizer,
    kernel: &'a KernelSymbols,
    lookups: BTreeMap<ModuleId, Option<debug::Lookup<'a>>>,
    frames: Vec<Frame>,
    by_frame: BTreeMap<Frame, u32>,
    by_place: BTreeMap<CodeAddress, Vec<u32>>,
}

impl<'a> Names<'a> {
    fn new(from: &'a Symbolizer, kernel: &'a KernelSymbols) -> Self {
        Names {
            from,
            kernel,
            lookups: BTreeMap::new(),
            frames: Vec::new(),
            by_frame: BTreeMap::new(),
            by_place: BTreeMap::new(),
        }
    }

    /// The frames at a place, outermost first.
    fn frames(&mut self, place: CodeAddress) -> &[u32] {
        if !self.by_place.contains_key(&place) {
            let frames = self.look_up(place).into_iter().map(|frame| self.intern(frame)).collect();
            self.by_place.insert(place, frames);
        }
        self.by_place.get(&place).map_or(&[], Vec::as_slice)
    }

    fn intern(&mut self, frame: Frame) -> u32 {
        if let Some(known) = self.by_frame.get(&frame) {
            return *known;
        }
        let id = self.frames.len() as u32;
        self.frames.push(frame.clone());
        self.by_frame.insert(frame, id);
        id
    }

    fn look_up(&mut self, place: CodeAddress) -> Vec<Frame> {
        let unknown = || crate::UNKNOWN.to_owned();
        match place.what() {
            What::Unknown => vec![Frame { function: unknown(), module: None, kind: FrameKind::User }],
            What::Kernel(address) => {
                let found = self.kernel.find(address);
                let (function, module) = found.map_or((unknown(), None), |(name, module)| (name.to_owned(), module));
                let module = Some(module.unwrap_or("[kernel]").to_owned());
                vec![Frame { function, module, kind: FrameKind::Kernel }]
            }
            What::Module(id, address) => match self.from.modules.get(usize::from(id.0)) {
                Some(module) => self.in_module(id, module, address),
                None => vec![Frame { function: unknown(), module: None, kind: FrameKind::User }],
            },
        }
    }

    fn in_module(&mut self, id: ModuleId, module: &'a Module, address: u64) -> Vec<Frame> {
        let lookup = self.lookups.entry(id).or_insert_with(|| module.debug().and_then(debug::Debug::lookup));
        let mut functions = lookup.as_ref().map_or_else(Vec::new, |lookup| debug::functions(lookup, address));
        // The symbol is what other tools show; debug information may give the same function a plainer name.
        if functions.is_empty() {
            functions.push(module.function(address));
        } else if module.has_symbol(address) || functions[0] == crate::UNKNOWN {
            functions[0] = module.function(address);
        }
        let frame = |(index, function)| Frame {
            function,
            module: Some(module.name().to_owned()),
            kind: if index == 0 { FrameKind::User } else { FrameKind::Inlined },
        };
        functions.into_iter().enumerate().map(frame).collect()
    }
}
