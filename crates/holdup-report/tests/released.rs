//! What a released JSON schema promised, its later forms promise (docs/bundle.md): `script/keep-release` keeps the schemas of each release
//! in `tests/released/VERSION`.

use holdup_report::schemas;
use serde_json::Value;
use std::path::Path;

/// The schemas of each release: version, id, schema.
fn released() -> Vec<(String, String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released");
    let list = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("is read").path()).collect();
        paths.sort();
        paths
    };
    let mut found = Vec::new();
    for version in list(&folder) {
        for path in list(&version) {
            let text = std::fs::read_to_string(&path).expect("is read");
            let schema: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let (name, number) = name.rsplit_once('-').unwrap_or_else(|| panic!("{}: no number", path.display()));
            let id = format!("holdup.{name}/{number}");
            let version = version.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.push((version, id, schema));
        }
    }
    found
}

/// The words of a rule that may be one or several.
fn words(rule: &Value) -> Vec<&Value> {
    rule.as_array().map_or_else(|| vec![rule], |many| many.iter().collect())
}

/// A schema and the document that its references lead into.
#[derive(Clone, Copy)]
struct Node<'a> {
    root: &'a Value,
    schema: &'a Value,
}

impl<'a> Node<'a> {
    fn of(root: &'a Value) -> Self {
        Node { root, schema: root }
    }

    /// Without references.
    fn resolved(self) -> Self {
        let name = self.schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/"));
        name.map_or(self, |name| Node { schema: &self.root["$defs"][name], ..self }.resolved())
    }

    fn at(self, schema: &'a Value) -> Self {
        Node { schema, ..self }
    }
}

/// What readers of the old form could rely on and of the new one cannot.
fn broken(old: Node<'_>, new: Node<'_>, at: &str, wrong: &mut Vec<String>) {
    // Kinds of a tree can contain themselves.
    if at.matches(['.', '[']).count() > 12 {
        return;
    }
    let (old, new) = (old.resolved(), new.resolved());
    if old.schema["const"] != new.schema["const"] {
        wrong.push(format!("{at}: {} became {}", old.schema["const"], new.schema["const"]));
    }
    if let Some(types) = old.schema.get("type") {
        let allowed = words(types);
        let is_allowed =
            |t: &&Value| allowed.contains(t) || (**t == "integer" && allowed.iter().any(|t| *t == "number"));
        match new.schema.get("type").map(words) {
            Some(types) if types.iter().all(is_allowed) => {}
            _ => wrong.push(format!("{at}: its type was {types}")),
        }
    }
    if let (Some(was), Some(is)) = (old.schema["enum"].as_array(), new.schema["enum"].as_array()) {
        was.iter().filter(|word| !is.contains(word)).for_each(|word| wrong.push(format!("{at}: {word} is gone")));
    }
    let required = |node: Node<'_>| -> Vec<String> {
        let names = node.schema["required"].as_array().into_iter().flatten();
        names.filter_map(|name| Some(name.as_str()?.to_owned())).collect()
    };
    let still = required(new);
    for name in required(old).into_iter().filter(|name| !still.contains(name)) {
        wrong.push(format!("{at}.{name}: was always there"));
    }
    for (name, was) in old.schema["properties"].as_object().into_iter().flatten() {
        match new.schema["properties"].get(name) {
            Some(is) => broken(old.at(was), new.at(is), &format!("{at}.{name}"), wrong),
            None => wrong.push(format!("{at}.{name}: is gone")),
        }
    }
    if old.schema["additionalProperties"] == Value::Bool(false) {
        let added = new.schema["properties"].as_object().into_iter().flatten();
        let added = added.filter(|(name, _)| old.schema["properties"].get(name.as_str()).is_none());
        added.for_each(|(name, _)| wrong.push(format!("{at}.{name}: nothing may be added here")));
    }
    if let (Some(was), Some(is)) = (old.schema.get("items"), new.schema.get("items")) {
        broken(old.at(was), new.at(is), &format!("{at}[]"), wrong);
    }
}

#[test]
fn a_schema_that_was_released_only_grows() {
    let released = released();
    assert!(released.len() >= schemas().len().min(10), "only {} schemas are kept", released.len());
    for (version, id, old) in &released {
        let found = schemas().iter().find(|(name, _)| name == id);
        let (_, text) = found.unwrap_or_else(|| panic!("{id} of {version} is gone"));
        let new: Value = serde_json::from_str(text).expect("a schema is JSON");
        let mut wrong = Vec::new();
        broken(Node::of(old), Node::of(&new), "$", &mut wrong);
        assert_eq!(
            wrong,
            Vec::<String>::new(),
            "{id} since {version}: add a schema of the next number, and keep this one"
        );
    }
}

#[test]
fn the_present_version_has_its_schemas_kept() {
    let released = released();
    for (id, _) in schemas() {
        let is_kept = released.iter().any(|(version, kept, _)| version == env!("CARGO_PKG_VERSION") && kept == id);
        assert!(is_kept, "{id} of {}: script/keep-release PROGRAM keeps it", env!("CARGO_PKG_VERSION"));
    }
}

#[test]
fn what_breaks_a_promise_is_found() {
    let old = serde_json::json!({
        "type": "object", "required": ["a"],
        "properties": {"a": {"type": ["string", "null"]}, "b": {"$ref": "#/$defs/x"}, "c": {"type": "array", "items": {"type": "number"}}},
        "$defs": {"x": {"enum": ["p", "q"]}},
    });
    let count = |change: fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new);
        let mut wrong = Vec::new();
        broken(Node::of(&old), Node::of(&new), "$", &mut wrong);
        wrong.len()
    };
    assert_eq!(count(|_| {}), 0);
    assert_eq!(count(|new| new["properties"]["d"] = serde_json::json!({"type": "string"})), 0, "added");
    assert_eq!(count(|new| new["properties"]["a"]["type"] = "string".into()), 0, "no longer absent");
    assert_eq!(count(|new| new["$defs"]["x"]["enum"] = serde_json::json!(["p", "q", "r"])), 0, "a new word");
    assert_eq!(count(|new| new["properties"]["c"]["items"]["type"] = "integer".into()), 0, "a narrower number");
    assert_eq!(
        count(|new| new["properties"]["a"]["type"] = serde_json::json!(["string", "integer"])),
        1,
        "another type"
    );
    assert_eq!(count(|new| new["$defs"]["x"]["enum"] = serde_json::json!(["p"])), 1, "a word that is gone");
    assert_eq!(count(|new| new["required"] = serde_json::json!([])), 1, "not always there");
    assert_eq!(count(|new| new["properties"]["c"]["items"]["type"] = "string".into()), 1, "of items");
    assert_eq!(count(|new| new["properties"] = serde_json::json!({"a": {"type": "string"}})), 2, "gone");
}
