//! x86-64, decoded by iced-x86.

mod access;
mod state;

use super::{
    Abi, Access, Architecture, BranchOn, ByteCopy, Comparison, Flag, FlagCopy, Flow, Form, Instruction, Instructions,
    Unwind,
};
use crate::image::Image;
use crate::values::{Nodes, State, Value, mask};
use holdup_model::sections::Machine;
use iced_x86::{ConditionCode, Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind, Register};
use std::sync::LazyLock;

pub(super) struct Rules;

/// Numbers of registers, as instructions encode them.
const RAX: usize = 0;
const RSP: usize = 4;

/// Those that a called function may change (System V psABI for x86-64, 3.2.1).
const OTHERS: &[usize] = &[0, 1, 2, 6, 7, 8, 9, 10, 11];

static ABI: Abi = Abi {
    id: "x86-64",
    machine: Machine::X86_64,
    elf: object::elf::EM_X86_64,
    registers: 16,
    result: RAX,
    arguments: &[7, 6, 2, 1, 8, 9],
    kept: &[3, 5, 12, 13, 14, 15],
    others: OTHERS,
    // In rflags (Intel SDM volume 1, 3.4.3).
    zero_flag: 1 << 6,
    carry_flag: 1,
    call_bytes: 8,
    slots: [object::elf::R_X86_64_JUMP_SLOT, object::elf::R_X86_64_GLOB_DAT],
    relative: object::elf::R_X86_64_RELATIVE,
    // `endbr64`, `bnd jmp`, or `jmp` with a 32-bit offset: none is longer than this before the jump is done.
    stub_bytes: 6,
    // System V psABI for x86-64, figure 3.36.
    unwind: Unwind {
        vendor: gimli::Vendor::Default,
        return_address: gimli::X86_64::RA,
        stack: gimli::X86_64::RSP,
        frame: gimli::X86_64::RBP,
        saved: [
            gimli::X86_64::R15,
            gimli::X86_64::R14,
            gimli::X86_64::R13,
            gimli::X86_64::R12,
            gimli::X86_64::RBP,
            gimli::X86_64::RBX,
        ],
    },
};

impl Architecture for Rules {
    fn abi(&self) -> &'static Abi {
        &ABI
    }

    fn instructions<'a>(&self, code: &'a [u8], at: u64) -> Instructions<'a> {
        Box::new(Decoder::with_ip(64, code, at, DecoderOptions::NONE).into_iter().map(of))
    }

    fn is_landing_pad(&self, instruction: &Instruction) -> bool {
        own(instruction).mnemonic() == Mnemonic::Endbr64
    }

    fn is_pause(&self, instruction: &Instruction) -> bool {
        own(instruction).mnemonic() == Mnemonic::Pause
    }

    fn may_acquire(&self, instruction: &Instruction) -> bool {
        access::may_acquire(own(instruction))
    }

    fn may_write(&self, instruction: &Instruction) -> bool {
        access::may_write(own(instruction))
    }

    fn may_count(&self, instruction: &Instruction) -> bool {
        own(instruction).mnemonic() == Mnemonic::Xadd && own(instruction).has_lock_prefix()
    }

    fn access(&self, instruction: &Instruction, state: &State, nodes: &mut Nodes) -> Option<Access> {
        access::access(own(instruction), state, nodes)
    }

    fn step(&self, instruction: &Instruction, state: &mut State, later: bool, nodes: &mut Nodes) {
        state::step(state, own(instruction), later, nodes);
    }

    fn comparison(&self, instruction: &Instruction, state: &State, nodes: &mut Nodes) -> Option<Comparison> {
        use Mnemonic::{And, Bt, Cmp, Test};
        let instruction = own(instruction);
        let is_register = instruction.op0_kind() == OpKind::Register;
        let writes_memory = instruction.mnemonic() == And && !is_register;
        if !matches!(instruction.mnemonic(), And | Bt | Cmp | Test) || writes_memory {
            return None;
        }
        let value = state::kept(state, instruction, 0, nodes)?;
        let wide = mask(width(instruction, 0));
        let same = instruction.op1_kind() == OpKind::Register;
        if same && (!is_register || instruction.op1_register() != instruction.op0_register()) {
            return None;
        }
        let number = if same { wide } else { instruction.try_immediate(1).ok()? & wide };
        let (bits, flag) = match instruction.mnemonic() {
            Cmp if !same && number == 0 => (wide, Flag::Zero),
            Cmp => return None,
            Bt if !same => (1u64 << (number & 63), Flag::Carry),
            Bt => return None,
            _ => (number, Flag::Zero),
        };
        let result = (instruction.mnemonic() == And && !same).then(|| number_of(instruction)).flatten();
        Some(Comparison { value, bits, flag, result })
    }

    fn copied(&self, instruction: &Instruction, state: &State, nodes: &mut Nodes) -> Option<ByteCopy> {
        use Mnemonic::{Mov, Movsx, Movzx, Xor};
        let instruction = own(instruction);
        let register = number_of(instruction)?;
        let inverted = match instruction.mnemonic() {
            Mov | Movsx | Movzx => 0,
            Xor => instruction.try_immediate(1).ok()?,
            _ => return None,
        };
        let operand = u32::from(instruction.mnemonic() != Xor);
        let value = state::kept(state, instruction, operand, nodes)?;
        let bytes = width(instruction, operand);
        let zero = if instruction.mnemonic() == Movzx || bytes == 4 { !mask(bytes) } else { 0 };
        Some(ByteCopy { value, bytes, register, inverted, zero })
    }

    fn compared(&self, instruction: &Instruction, state: &State, nodes: &mut Nodes) -> Option<(Value, Value)> {
        let compare = own(instruction);
        if compare.mnemonic() != Mnemonic::Cmp
            || compare.op0_kind() != OpKind::Register && compare.op1_kind() != OpKind::Register
        {
            return None;
        }
        Some((state::operand(state, compare, 0, nodes)?, state::operand(state, compare, 1, nodes)?))
    }

    fn branch_on(&self, instruction: &Instruction) -> Option<BranchOn> {
        let instruction = own(instruction);
        let flag = match instruction.condition_code() {
            ConditionCode::e | ConditionCode::ne => Flag::Zero,
            ConditionCode::b | ConditionCode::ae => Flag::Carry,
            _ => return None,
        };
        let taken_when_set = matches!(instruction.condition_code(), ConditionCode::e | ConditionCode::b);
        instruction.is_jcc_short_or_near().then_some(BranchOn::Flag { flag, taken_when_set })
    }

    fn flag_copy(&self, instruction: &Instruction) -> Option<FlagCopy> {
        let instruction = own(instruction);
        let (flag, when_set) = match instruction.mnemonic() {
            Mnemonic::Sete => (Flag::Zero, true),
            Mnemonic::Setb => (Flag::Carry, true),
            Mnemonic::Setne => (Flag::Zero, false),
            Mnemonic::Setae => (Flag::Carry, false),
            _ => return None,
        };
        Some(FlagCopy { register: number(instruction.op0_register())?, mask: 0xff, flag, when_set })
    }

    fn changes_flags(&self, instruction: &Instruction) -> bool {
        own(instruction).rflags_modified() != 0 || own(instruction).is_call_near()
    }

    fn first_argument(&self, instruction: &Instruction) -> Option<Option<u64>> {
        let instruction = own(instruction);
        if instruction.mnemonic() != Mnemonic::Mov || number(instruction.op0_register()) != Some(ABI.arguments[0]) {
            return None;
        }
        let fixed = instruction.op1_kind() == OpKind::Immediate32;
        Some(if fixed { instruction.try_immediate(1).ok() } else { None })
    }

    fn stub(&self, code: &[u8], at: u64) -> Option<u64> {
        let mut instructions = self.instructions(&code[..code.len().min(24)], at).take(2);
        let first = instructions.find(|instruction| !self.is_landing_pad(instruction))?;
        match first.flow {
            Flow::JumpSlot(slot) => Some(slot),
            _ => None,
        }
    }

    fn addresses(&self, instructions: Instructions<'_>) -> Vec<u64> {
        let made = |instruction: Instruction| {
            let lea = own(&instruction);
            let yes = lea.mnemonic() == Mnemonic::Lea && lea.is_ip_rel_memory_operand();
            yes.then(|| lea.ip_rel_memory_address())
        };
        instructions.filter_map(made).collect()
    }

    /// A table of 32-bit offsets, as GCC and Clang make them for position-independent code:
    /// `lea table, T; movslq (T, index, 4), X; add T, X; jmp *X`.
    fn jump_table(
        &self,
        image: &Image<'_>,
        jump: &Instruction,
        before: &[&Instruction],
        inside: &dyn Fn(u64) -> bool,
    ) -> Vec<u64> {
        if own(jump).op0_kind() != OpKind::Register {
            return Vec::new();
        }
        let before: Vec<&iced_x86::Instruction> = before.iter().map(|instruction| own(instruction)).collect();
        let is_load = |i: &&iced_x86::Instruction| i.mnemonic() == Mnemonic::Movsxd && i.op1_kind() == OpKind::Memory;
        let Some(load) = before.iter().position(is_load) else { return Vec::new() };
        let base = before[load].memory_base();
        let table = before.iter().skip(load).find_map(|i| {
            (i.mnemonic() == Mnemonic::Lea && i.op0_register() == base && i.is_ip_rel_memory_operand())
                .then(|| i.ip_rel_memory_address())
        });
        let Some(table) = table else { return Vec::new() };
        let most = before.iter().skip(load).find_map(|i| {
            let is_bound = i.mnemonic() == Mnemonic::Cmp && i.op0_register() != Register::None;
            if is_bound { i.try_immediate(1).ok() } else { None }
        });
        let most = most.map_or(1024, |most| most.saturating_add(1).min(1024));
        (0..most)
            .map_while(|entry| image.number(table.wrapping_add(4 * entry), 4))
            .map(|offset| table.wrapping_add_signed(i64::from(offset as i32)))
            .take_while(|to| inside(*to))
            .collect()
    }
}

/// What stands for an instruction of another architecture, which none of this one is.
static NONE: LazyLock<iced_x86::Instruction> = LazyLock::new(iced_x86::Instruction::new);

/// The decoder's form of an instruction.
fn own(instruction: &Instruction) -> &iced_x86::Instruction {
    match &instruction.form {
        Form::X86(own) => own,
        Form::Arm(_) | Form::None => &NONE,
    }
}

fn of(own: iced_x86::Instruction) -> Instruction {
    let near = || {
        let is_near = own.op_count() > 0 && own.op0_kind() == OpKind::NearBranch64;
        is_near.then(|| own.near_branch_target())
    };
    let slot = || own.is_ip_rel_memory_operand().then(|| own.ip_rel_memory_address());
    let flow = match own.flow_control() {
        _ if own.is_invalid() => Flow::NotKnown,
        FlowControl::Next | FlowControl::XbeginXabortXend => Flow::Next,
        FlowControl::Call => near().map_or(Flow::SystemCall, Flow::Call),
        FlowControl::IndirectCall => slot().map_or(Flow::CallUnknown, Flow::CallSlot),
        FlowControl::ConditionalBranch => near().map_or(Flow::Ends, Flow::Branch),
        FlowControl::UnconditionalBranch => near().map_or(Flow::JumpUnknown, Flow::Jump),
        FlowControl::IndirectBranch => slot().map_or(Flow::JumpUnknown, Flow::JumpSlot),
        FlowControl::Return => Flow::Return,
        FlowControl::Interrupt | FlowControl::Exception => Flow::Ends,
    };
    Instruction { ip: own.ip(), bytes: own.len() as u8, flow, form: Form::X86(own) }
}

/// The number of a general register, in all its widths but the second byte.
fn number(register: Register) -> Option<usize> {
    use Register::{AH, BH, CH, DH};
    (register.is_gpr() && !matches!(register, AH | BH | CH | DH)).then(|| register.full_register().number())
}

/// The register that is an instruction's first operand, by number.
fn number_of(instruction: &iced_x86::Instruction) -> Option<usize> {
    (instruction.op0_kind() == OpKind::Register).then(|| number(instruction.op0_register())).flatten()
}

/// The bytes of a register or memory operand.
fn width(instruction: &iced_x86::Instruction, operand: u32) -> usize {
    match instruction.op_kind(operand) {
        OpKind::Register => instruction.op_register(operand).size(),
        OpKind::Memory => instruction.memory_size().size(),
        _ => 8,
    }
}
