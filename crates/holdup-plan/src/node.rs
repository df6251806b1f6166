//! The tree of a TOML file with a place for each value, environment variables filled in.

use crate::errors::{Complaints, Wrong};
use crate::source::Location;
use crate::words::shown;
use toml_edit::{Document, Item, Key, TableLike, Value};

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Location,
    pub(crate) data: Data,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    /// A date or a time, which no plan needs; as written.
    Date(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// Something that was complained about already.
    Bad,
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) place: Location,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn new(place: Location, data: Data) -> Self {
        Node { place, data }
    }

    pub(crate) fn is_bad(&self) -> bool {
        self.data == Data::Bad
    }

    /// What it is, for "… was expected, this is …".
    pub(crate) fn describe(&self) -> String {
        match &self.data {
            Data::Text(t) => format!("the text `{}`", shown(t)),
            Data::Integer(i) => format!("the number {i}"),
            Data::Float(x) => format!("the number {x}"),
            Data::Bool(b) => format!("{b}"),
            Data::Date(d) => format!("the date {}", shown(d)),
            Data::List(_) => "a list".to_owned(),
            Data::Table(_) => "a table".to_owned(),
            Data::Bad => "nothing".to_owned(),
        }
    }

    /// The value as a user may have written it, for `parameter = VALUE`.
    pub(crate) fn written(&self) -> String {
        match &self.data {
            Data::Text(t) if t.is_empty() => "\"\"".to_owned(),
            Data::Text(t) => shown(t),
            Data::Integer(i) => i.to_string(),
            Data::Float(x) => x.to_string(),
            Data::Bool(b) => b.to_string(),
            Data::Date(d) => shown(d),
            Data::List(_) => "[…]".to_owned(),
            Data::Table(_) => "{…}".to_owned(),
            Data::Bad => "?".to_owned(),
        }
    }

    /// The levels that it stands for: its members when it is a list, itself when not.
    pub(crate) fn levels(&self) -> &[Node] {
        match &self.data {
            Data::List(nodes) => nodes,
            _ => std::slice::from_ref(self),
        }
    }
}

/// A variable of the environment; `None` when it is not set.
pub(crate) type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// What reading a file needs.
pub(crate) struct Reading<'a> {
    pub(crate) file: usize,
    /// What the file is, for messages: a plan, a profile.
    pub(crate) what: &'static str,
    /// What `${NAME}` stands for; `None` where texts are taken as they are.
    pub(crate) environment: Option<&'a Environment<'a>>,
    pub(crate) complaints: &'a mut Complaints,
}

impl Reading<'_> {
    /// The tree of a file's text; `None` when it is not TOML, which was complained about then.
    pub(crate) fn parse(&mut self, text: &str) -> Option<Vec<Entry>> {
        let document = match Document::parse(text) {
            Ok(document) => document,
            Err(e) => {
                let at = e.span().map_or(0, |s| s.start);
                let why = e.message().trim().trim_end_matches('.').replace('\n', ", ");
                let wrong = Wrong::new(why)
                    .hint(format!("{} is TOML: key = value, texts in quotes, tables as [name]", self.what));
                self.complaints.add(&Location::In { file: self.file, at }, "not TOML", wrong);
                return None;
            }
        };
        Some(self.entries(document.as_table(), 0))
    }

    fn place(&self, span: Option<std::ops::Range<usize>>, or: usize) -> Location {
        Location::In { file: self.file, at: span.map_or(or, |s| s.start) }
    }

    fn entries(&mut self, table: &dyn TableLike, around: usize) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (key, item) in table.iter() {
            let at = table.key(key).and_then(Key::span).map_or(around, |s| s.start);
            let place = Location::In { file: self.file, at };
            let node = self.item(item, at);
            entries.push(Entry { key: key.to_owned(), place, node });
        }
        entries
    }

    fn item(&mut self, item: &Item, around: usize) -> Node {
        match item {
            Item::None => Node::new(self.place(None, around), Data::Bad),
            Item::Value(value) => self.value(value, around),
            Item::Table(table) => {
                let place = self.place(table.span(), around);
                Node::new(place, Data::Table(self.entries(table, around)))
            }
            Item::ArrayOfTables(tables) => {
                let nodes = tables
                    .iter()
                    .map(|table| {
                        let at = table.span().map_or(around, |s| s.start);
                        Node::new(self.place(None, at), Data::Table(self.entries(table, at)))
                    })
                    .collect();
                Node::new(self.place(tables.span(), around), Data::List(nodes))
            }
        }
    }

    fn filled(&self, text: &str) -> Result<String, (String, Wrong)> {
        match self.environment {
            Some(environment) => fill(text, environment),
            None => Ok(text.to_owned()),
        }
    }

    fn value(&mut self, value: &Value, around: usize) -> Node {
        let place = self.place(value.span(), around);
        let data = match value {
            Value::String(text) => match self.filled(text.value()) {
                Ok(text) => Data::Text(text),
                Err((what, wrong)) => {
                    self.complaints.add(&place, what, wrong);
                    Data::Bad
                }
            },
            Value::Integer(i) => Data::Integer(*i.value()),
            Value::Float(x) => Data::Float(*x.value()),
            Value::Boolean(b) => Data::Bool(*b.value()),
            Value::Datetime(d) => Data::Date(d.value().to_string()),
            Value::Array(array) => Data::List(array.iter().map(|v| self.value(v, around)).collect()),
            Value::InlineTable(table) => Data::Table(self.entries(table, around)),
        };
        Node::new(place, data)
    }
}

/// Fills in `${NAME}` and `${NAME:-default}`; `$${` stands for `${`. What was filled in is not looked at again.
fn fill(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, (String, Wrong)> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            filled.push_str(&rest[..at - 1]);
            filled.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        filled.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let Some(end) = inside.find('}') else {
            let what = format!("variable `{}`", shown(&rest[at..]));
            return Err((
                what,
                Wrong::new("it has no closing brace").hint("${NAME} or ${NAME:-default}; $${ is a plain ${"),
            ));
        };
        let (name, default) = match inside[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inside[..end], None),
        };
        if !is_name(name) {
            let what = format!("variable `${{{}}}`", shown(name));
            let hint = "${NAME} or ${NAME:-default}; $${ is a plain ${";
            return Err((what, Wrong::new("this cannot be the name of a variable").hint(hint)));
        }
        match (environment(name).filter(|value| !value.is_empty() || default.is_none()), default) {
            (Some(value), _) => filled.push_str(&value),
            (None, Some(default)) => filled.push_str(default),
            (None, None) => {
                let wrong = Wrong::new("it is not set in the environment")
                    .hint(format!("set {name}, or give a default: ${{{name}:-default}}"));
                return Err((format!("variable `${{{name}}}`"), wrong));
            }
        }
        rest = &inside[end + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}

fn is_name(name: &str) -> bool {
    name.len() <= 200
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The text that [`fill`] turns into `text` in any environment.
pub(crate) fn unfill(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in() {
        let environment = |name: &str| match name {
            "SCALE" => Some("50".to_owned()),
            "EMPTY" => Some(String::new()),
            "TRICK" => Some("${SCALE}".to_owned()),
            _ => None,
        };
        let check = |text: &str, expect: Result<&str, &str>| {
            let got = fill(text, &environment);
            assert_eq!(got.as_deref().map_err(|(what, _)| what.as_str()), expect, "{text}");
        };
        check("plain", Ok("plain"));
        check("${SCALE}", Ok("50"));
        check("a${SCALE}b${SCALE}", Ok("a50b50"));
        check("${NONE:-7}", Ok("7"));
        check("${NONE:-}", Ok(""));
        check("${EMPTY:-7}", Ok("7"));
        check("${EMPTY}", Ok(""));
        check("$${SCALE}", Ok("${SCALE}"));
        check("cost $5 $SCALE", Ok("cost $5 $SCALE"));
        check("${TRICK}", Ok("${SCALE}"));
        check("${NONE}", Err("variable `${NONE}`"));
        check("${1A}", Err("variable `${1A}`"));
        check("${}", Err("variable `${}`"));
        check("${OPEN", Err("variable `${OPEN`"));
    }

    #[test]
    fn unfilled_text_survives_filling() {
        for text in ["${A}", "$${A}", "$$${", "a", "${", "$"] {
            assert_eq!(fill(&unfill(text), &|_| None).as_deref(), Ok(text), "{text}");
        }
    }
}
