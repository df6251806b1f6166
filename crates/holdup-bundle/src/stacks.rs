//! Stack profiles as a bundle keeps them: a tree of calls in columns, as JSON.
//!
//! Most stacks of a profile begin alike, so each is the last node of a path in one tree. The members:
//!
//! - `words`: every text once; the others refer to it by place, from 0.
//! - `functions`: of the functions, `name` (a word), `module` (one more than the word, 0 for none), and `kind` (one
//!   letter each, in one text: `u` user, `i` inlined, `k` kernel).
//! - `nodes`: of the calls, from 1, `parent` (the calling node, always an earlier one; 0 for none) and `function`.
//! - `stacks`: of the stacks, heaviest first, `task` (a word), `role` (one more than the word, 0 for none), `node` (the
//!   innermost call; 0 for a stack without functions) and `weight`.

use crate::deflated::parsed;
use holdup_model::stacks::{Frame, FrameKind, Stack};
use holdup_model::{MemoryBudget, StackProfile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most calls of all stacks of a profile together. A tree can stand for far more calls than it has bytes, so that
/// this, too, has to have an end.
const MOST_CALLS: usize = 1 << 24;

/// The most bytes of text that the stacks of a profile may repeat, task names and roles.
pub(crate) const MOST_TEXT_BYTES: usize = 1 << 27;

#[derive(Serialize, Deserialize)]
struct Body {
    words: Vec<String>,
    functions: Functions,
    nodes: Nodes,
    stacks: Stacks,
}

#[derive(Default, Serialize, Deserialize)]
struct Functions {
    name: Vec<u32>,
    module: Vec<u32>,
    kind: String,
}

#[derive(Default, Serialize, Deserialize)]
struct Nodes {
    parent: Vec<u32>,
    function: Vec<u32>,
}

#[derive(Default, Serialize, Deserialize)]
struct Stacks {
    task: Vec<u32>,
    role: Vec<u32>,
    node: Vec<u32>,
    weight: Vec<u64>,
}

/// Texts that are written once and referred to by place afterwards.
#[derive(Default)]
pub(crate) struct Words<'a> {
    places: BTreeMap<&'a str, u32>,
    list: Vec<String>,
}

impl<'a> Words<'a> {
    pub(crate) fn place(&mut self, word: &'a str) -> u32 {
        let next = self.list.len() as u32;
        let list = &mut self.list;
        *self.places.entry(word).or_insert_with(|| {
            list.push(word.to_owned());
            next
        })
    }

    /// One more than the place, 0 for no word.
    pub(crate) fn place_or_none(&mut self, word: Option<&'a str>) -> u32 {
        word.map_or(0, |w| self.place(w) + 1)
    }

    /// The words in the order of their places.
    pub(crate) fn into_list(self) -> Vec<String> {
        self.list
    }
}

/// Texts that are handed out again and again, up to that number of bytes.
pub(crate) struct Given<'a> {
    words: &'a [String],
    left_bytes: usize,
    budget: &'a MemoryBudget,
}

pub(crate) fn repeats_too_much() -> String {
    format!("repeats more than {MOST_TEXT_BYTES} bytes of text")
}

/// Memory of a text beside its bytes, for the allocator.
const BESIDE_TEXT: u64 = 16;

impl<'a> Given<'a> {
    pub(crate) fn of(words: &'a [String], budget: &'a MemoryBudget) -> Self {
        Given { words, left_bytes: MOST_TEXT_BYTES, budget }
    }

    pub(crate) fn word(&mut self, place: u32) -> Result<String, String> {
        let word = self.words.get(place as usize).ok_or_else(|| format!("refers to word {place}, which is missing"))?;
        self.left_bytes = self.left_bytes.checked_sub(word.len()).ok_or_else(repeats_too_much)?;
        self.budget.take(BESIDE_TEXT + word.len() as u64).map_err(|e| e.to_string())?;
        Ok(word.clone())
    }

    /// The word before a place that is one more, none for 0.
    pub(crate) fn word_or_none(&mut self, place: u32) -> Result<Option<String>, String> {
        place.checked_sub(1).map(|p| self.word(p)).transpose()
    }
}

/// The JSON of a profile, without what has its own columns. The error follows `the stack profile NAME`.
pub(crate) fn encode(profile: &StackProfile) -> Result<Vec<u8>, String> {
    let mut words = Words::default();
    let mut functions = Functions::default();
    for f in &profile.frames {
        functions.name.push(words.place(&f.function));
        functions.module.push(words.place_or_none(f.module.as_deref()));
        functions.kind.push(match f.kind {
            FrameKind::User => 'u',
            FrameKind::Inlined => 'i',
            FrameKind::Kernel => 'k',
        });
    }
    let calls: usize = profile.stacks.iter().map(|s| s.frames.len()).sum();
    if calls > MOST_CALLS {
        return Err(format!("has {calls} calls in its stacks, more than {MOST_CALLS}"));
    }
    let mut tree: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut nodes = Nodes::default();
    let mut stacks = Stacks::default();
    for stack in &profile.stacks {
        let mut at = 0;
        for &function in &stack.frames {
            if function as usize >= profile.frames.len() {
                return Err(format!("refers to function {function} of {}", profile.frames.len()));
            }
            let next = tree.len() as u32 + 1;
            at = *tree.entry((at, function)).or_insert_with(|| {
                nodes.parent.push(at);
                nodes.function.push(function);
                next
            });
        }
        stacks.task.push(words.place(&stack.task));
        stacks.role.push(words.place_or_none(stack.role.as_deref()));
        stacks.node.push(at);
        stacks.weight.push(stack.weight);
    }
    serde_json::to_vec(&Body { words: words.into_list(), functions, nodes, stacks }).map_err(|e| e.to_string())
}

/// Reads the JSON of a profile. The error follows `the stack profile NAME`.
pub(crate) fn decode(json: &[u8], budget: &MemoryBudget) -> Result<(Vec<Frame>, Vec<Stack>), String> {
    let (body, _taken): (Body, _) = parsed(json, budget)?;
    let mut given = Given::of(&body.words, budget);
    let take = |bytes: usize| budget.take(bytes as u64).map_err(|e| e.to_string());
    let f = &body.functions;
    take(f.name.len() * size_of::<Frame>())?;
    same_length("functions", &[f.name.len(), f.module.len(), f.kind.len()])?;
    let mut frames = Vec::with_capacity(f.name.len());
    for ((name, module), kind) in f.name.iter().zip(&f.module).zip(f.kind.chars()) {
        let kind = match kind {
            'u' => FrameKind::User,
            'i' => FrameKind::Inlined,
            'k' => FrameKind::Kernel,
            other => return Err(format!("has a function of the kind `{other}`, which is none")),
        };
        frames.push(Frame { function: given.word(*name)?, module: given.word_or_none(*module)?, kind });
    }
    let depths = depths(&body.nodes, frames.len())?;
    let s = &body.stacks;
    same_length("stacks", &[s.task.len(), s.role.len(), s.node.len(), s.weight.len()])?;
    take(s.task.len() * size_of::<Stack>())?;
    let mut calls = 0_usize;
    let mut stacks = Vec::with_capacity(s.task.len());
    for i in 0..s.task.len() {
        let depth = match s.node[i].checked_sub(1) {
            None => 0,
            Some(n) => *depths.get(n as usize).ok_or_else(|| format!("has no node {}", s.node[i]))? as usize,
        };
        calls += depth;
        if calls > MOST_CALLS {
            return Err(format!("has more than {MOST_CALLS} calls in its stacks"));
        }
        take(depth * size_of::<u32>())?;
        let (task, role) = (given.word(s.task[i])?, given.word_or_none(s.role[i])?);
        stacks.push(Stack { task, role, frames: path(&body.nodes, s.node[i], depth), weight: s.weight[i] });
    }
    Ok((frames, stacks))
}

/// How deep each node is, counted from 1; every reference is checked here.
fn depths(nodes: &Nodes, functions: usize) -> Result<Vec<u32>, String> {
    same_length("nodes", &[nodes.parent.len(), nodes.function.len()])?;
    let mut depths: Vec<u32> = Vec::with_capacity(nodes.parent.len());
    for (&parent, &function) in nodes.parent.iter().zip(&nodes.function) {
        if function as usize >= functions {
            return Err(format!("refers to function {function} of {functions}"));
        }
        let above = match parent.checked_sub(1) {
            None => 0,
            Some(p) => *depths.get(p as usize).ok_or_else(|| format!("has a call before its caller, node {parent}"))?,
        };
        depths.push(above + 1);
    }
    Ok(depths)
}

/// The functions on the way to a node, outermost first. The nodes are checked.
fn path(nodes: &Nodes, node: u32, depth: usize) -> Vec<u32> {
    let mut frames = Vec::with_capacity(depth);
    let mut at = node;
    while let Some(n) = at.checked_sub(1) {
        frames.push(nodes.function[n as usize]);
        at = nodes.parent[n as usize];
    }
    frames.reverse();
    frames
}

/// Columns of one list have one length.
pub(crate) fn same_length(what: &str, lengths: &[usize]) -> Result<(), String> {
    if lengths.iter().all(|l| Some(l) == lengths.first()) {
        Ok(())
    } else {
        Err(format!("has columns of {what} that are not of one length"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a body that was made by hand.
    fn said(words: &str, functions: &str, nodes: &str, stacks: &str) -> String {
        let json = format!(r#"{{"words":[{words}],"functions":{functions},"nodes":{nodes},"stacks":{stacks}}}"#);
        decode(json.as_bytes(), &MemoryBudget::default())
            .map(|(frames, stacks)| format!("{} {}", frames.len(), stacks.len()))
            .unwrap_or_else(|e| e)
    }

    const FUNCTIONS: &str = r#"{"name":[0],"module":[0],"kind":"u"}"#;
    const NODES: &str = r#"{"parent":[0,1],"function":[0,0]}"#;
    const STACKS: &str = r#"{"task":[1],"role":[2],"node":[2],"weight":[9]}"#;

    #[test]
    fn a_body_that_lies_is_refused_with_its_lie() {
        let words = r#""main","postgres""#;
        assert_eq!(said(words, FUNCTIONS, NODES, STACKS), "1 1");
        assert_eq!(said("", FUNCTIONS, NODES, STACKS), "refers to word 0, which is missing");
        let twice = r#"{"name":[0],"module":[0,0],"kind":"u"}"#;
        assert_eq!(said(words, twice, NODES, STACKS), "has columns of functions that are not of one length");
        let other = r#"{"name":[0],"module":[0],"kind":"x"}"#;
        assert_eq!(said(words, other, NODES, STACKS), "has a function of the kind `x`, which is none");
        let itself = r#"{"parent":[0,2],"function":[0,0]}"#;
        assert_eq!(said(words, FUNCTIONS, itself, STACKS), "has a call before its caller, node 2");
        let missing = r#"{"parent":[0,1],"function":[0,1]}"#;
        assert_eq!(said(words, FUNCTIONS, missing, STACKS), "refers to function 1 of 1");
        let node = r#"{"task":[1],"role":[2],"node":[3],"weight":[9]}"#;
        assert_eq!(said(words, FUNCTIONS, NODES, node), "has no node 3");
        assert!(decode(b"[1", &MemoryBudget::default()).expect_err("noise").starts_with("is not the JSON of one ("));
    }

    #[test]
    fn a_small_body_that_stands_for_very_much_is_refused() {
        let depth = 40_000;
        let parents: Vec<u32> = (0..depth).collect();
        let nodes = Nodes { function: vec![0; parents.len()], parent: parents };
        let functions = Functions { name: vec![0], module: vec![0], kind: "u".to_owned() };
        let list = |value: u32| vec![value; 1_000];
        let stacks = Stacks { task: list(0), role: list(0), node: list(depth), weight: vec![1; 1_000] };
        let body = Body { words: vec!["main".to_owned()], functions, nodes, stacks };
        let said =
            decode(&serde_json::to_vec(&body).expect("is JSON"), &MemoryBudget::default()).expect_err("is refused");
        assert_eq!(said, "has more than 16777216 calls in its stacks");

        let stacks = Stacks { task: list(0), role: list(0), node: list(0), weight: vec![1; 1_000] };
        let body =
            Body { words: vec!["x".repeat(1 << 18)], functions: Functions::default(), nodes: Nodes::default(), stacks };
        let said =
            decode(&serde_json::to_vec(&body).expect("is JSON"), &MemoryBudget::default()).expect_err("is refused");
        assert_eq!(said, "repeats more than 134217728 bytes of text");
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let stack = Stack { task: "a".into(), role: None, frames: vec![3], weight: 1 };
        let profile = StackProfile { stacks: vec![stack], ..StackProfile::default() };
        assert_eq!(encode(&profile).expect_err("is refused"), "refers to function 3 of 0");
    }
}
