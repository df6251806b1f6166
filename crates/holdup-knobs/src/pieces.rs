//! A knob that is several files: one for each CPU, interrupt or control group, each saved and put back by itself.

use crate::{Past, Standing};
use holdup_host::{Host, HostError};
use holdup_model::text::shell_quoted;
use holdup_model::{Problem, Value};
use std::collections::BTreeMap;

/// What each file held, by path.
pub(crate) type Files = BTreeMap<String, String>;

pub(crate) fn encode(files: &Files) -> Result<Value, Problem> {
    serde_json::to_string(files).map(Value::Text).map_err(|e| Problem::internal("saved files", e.to_string()))
}

pub(crate) fn decode(saved: &Value) -> Result<Files, Problem> {
    let Value::Text(text) = saved else {
        return Err(Problem::internal("saved files", format!("`{saved}` is not a list of files")));
    };
    serde_json::from_str(text).map_err(|e| Problem::internal("saved files", e.to_string()))
}

/// `None` where what the file was about is not there any more.
fn unless_gone<T>(result: Result<T, HostError>) -> Result<Option<T>, Problem> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.is_gone() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// What the files hold now; those that went meanwhile are left out.
pub(crate) fn read(host: &Host, paths: &[String]) -> Result<Files, Problem> {
    let mut files = Files::new();
    for path in paths {
        if let Some(text) = unless_gone(host.read_value(path))? {
            files.insert(path.clone(), text);
        }
    }
    Ok(files)
}

/// What [`crate::Knob::save`] gives: the files that nothing saved yet holds; `None` when there are none.
pub(crate) fn save(host: &Host, paths: &[String], already: &[&Value]) -> Result<Option<Value>, Problem> {
    let known: Vec<Files> = already.iter().map(|saved| decode(saved)).collect::<Result<_, _>>()?;
    let fresh: Vec<String> =
        paths.iter().filter(|path| !known.iter().any(|files| files.contains_key(*path))).cloned().collect();
    if fresh.is_empty() { Ok(None) } else { encode(&read(host, &fresh)?).map(Some) }
}

/// What [`crate::Knob::overlaps`] gives.
pub(crate) fn overlaps(paths: &[String], saved: &Value) -> Result<bool, Problem> {
    let files = decode(saved)?;
    Ok(paths.iter().any(|path| files.contains_key(path)))
}

/// A file that is still there, as against what was saved.
struct Compared {
    path: String,
    now: String,
    before: String,
    is_ours: bool,
}

impl Compared {
    fn is_back(&self) -> bool {
        self.now == self.before
    }
}

/// How a knob of several files understands them.
pub(crate) struct Pieces<'a> {
    pub(crate) host: &'a Host,
    /// Whether a file that holds this text has what a level means for it.
    pub(crate) has: &'a dyn Fn(&str, &str, &Value) -> bool,
    /// The folder that all its files are in. A journal that someone else wrote must not name others.
    pub(crate) below: &'a str,
    /// What is in force, from what the files hold.
    pub(crate) summary: &'a dyn Fn(&Files) -> Value,
    /// Why none of the files may be there any more.
    pub(crate) gone: &'a str,
}

impl Pieces<'_> {
    fn compare(&self, past: &Past<'_>) -> Result<Vec<Compared>, Problem> {
        let mut found = Vec::new();
        for (path, before) in decode(past.saved)? {
            let is_inside = path.strip_prefix(self.below).is_some_and(|rest| rest.starts_with('/'));
            if !is_inside || path.split('/').any(|part| part == "..") {
                return Err(Problem::host(
                    format!("saved file {path}"),
                    format!("it is not in {}, where this knob has its files", self.below),
                ));
            }
            let Some(now) = unless_gone(self.host.read_value(&path))? else { continue };
            let is_ours = now != before && past.ever.iter().any(|level| (self.has)(&path, &now, level));
            found.push(Compared { path, now, before, is_ours });
        }
        Ok(found)
    }

    /// What [`crate::Knob::standing`] gives.
    pub(crate) fn standing(&self, past: &Past<'_>) -> Result<Standing, Problem> {
        let found = self.compare(past)?;
        if found.is_empty() {
            return Ok(Standing::Gone(self.gone.to_owned()));
        }
        let (is_back, has_ours) = (found.iter().all(Compared::is_back), found.iter().any(|file| file.is_ours));
        let files: Files = found.into_iter().map(|file| (file.path, file.now)).collect();
        Ok(match (is_back, has_ours) {
            (true, _) => Standing::Restored,
            (_, true) => Standing::Ours((self.summary)(&files)),
            (..) => Standing::Foreign((self.summary)(&files)),
        })
    }

    /// Puts back each file that holds what holdup wrote; one that someone else changed meanwhile is left alone. A
    /// failure at one file does not keep the others from being put back.
    pub(crate) fn restore(&self, past: &Past<'_>) -> Result<(), Problem> {
        let mut first = Ok(());
        for file in self.compare(past)?.into_iter().filter(|file| file.is_ours) {
            let done = unless_gone(self.host.write(&file.path, &file.before)).map(|_| ());
            first = first.and(done);
        }
        first
    }
}

/// The one value when all are alike, else each with its number of `things`.
pub(crate) fn summary<'a>(values: impl Iterator<Item = &'a String>, things: &str) -> Value {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let mut parts: Vec<String> = counts.iter().map(|(value, count)| format!("{value} on {count} {things}")).collect();
    Value::Text(match (counts.len(), counts.keys().next()) {
        (1, Some(value)) => (*value).to_owned(),
        _ => {
            parts.sort();
            format!("mixed: {}", parts.join(", "))
        }
    })
}

/// A line of the shell that puts the files back: one loop for all that held the same.
pub(crate) fn by_hand(saved: &Value) -> Option<String> {
    let files = decode(saved).ok()?;
    let mut by_text: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (path, text) in &files {
        by_text.entry(text).or_default().push(shell_quoted(path));
    }
    let commands = by_text.iter().map(|(text, paths)| match (shell_quoted(text), paths.as_slice()) {
        (text, [path]) => format!("echo {text} > {path}"),
        (text, _) => format!("for f in {}; do echo {text} > $f; done", paths.join(" ")),
    });
    Some(commands.collect::<Vec<_>>().join("; ")).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn each_file_stands_for_itself() {
        let fs = MemoryFs::of(&[("/a", "1\n"), ("/b", "2\n"), ("/c", "1\n")]);
        let host = fs.host();
        let paths = ["/a", "/b", "/c", "/gone"].map(str::to_owned);
        let saved = save(&host, &paths, &[]).expect("there").expect("fresh");
        assert_eq!(save(&host, &paths[..3], &[&saved]).expect("there"), None);
        assert_eq!(by_hand(&saved).expect("files"), "for f in /a /c; do echo 1 > $f; done; echo 2 > /b");
        assert_eq!(
            (shell_quoted(r"/a\x2db"), shell_quoted("/it's")),
            (r"'/a\x2db'".to_owned(), r"'/it'\''s'".to_owned())
        );
        let pieces = Pieces {
            host: &host,
            has: &|_, now, level| *level == Value::Text(now.to_owned()),
            below: "",
            summary: &|files| summary(files.values(), "files"),
            gone: "they went",
        };
        let ever = [Value::Text("9".to_owned())];
        let past = Past { saved: &saved, written: &ever, ever: &ever };
        // A journal that names files of others is not followed.
        for (below, path) in [("/sys", "/a"), ("/sys", "/sysx/a"), ("/sys", "/sys/../a")] {
            let named = encode(&Files::from([(path.to_owned(), "1".to_owned())])).expect("a list");
            let past = Past { saved: &named, written: &ever, ever: &ever };
            let elsewhere = Pieces { below, ..pieces };
            assert!(elsewhere.standing(&past).is_err() && elsewhere.restore(&past).is_err(), "{path}");
        }
        assert_eq!(pieces.standing(&past).expect("there"), Standing::Restored);
        fs.put("/a", "9\n");
        fs.put("/b", "5\n");
        let found = Value::Text("mixed: 1 on 1 files, 5 on 1 files, 9 on 1 files".to_owned());
        assert_eq!(pieces.standing(&past).expect("there"), Standing::Ours(found));
        pieces.restore(&past).expect("it takes");
        assert_eq!(["/a", "/b", "/c"].map(|path| fs.get(path).expect("there").trim().to_owned()), ["1", "5", "1"]);
        assert!(matches!(pieces.standing(&past), Ok(Standing::Foreign(_))));
        for path in ["/a", "/b", "/c"] {
            fs.take_away(path);
        }
        assert_eq!(pieces.standing(&past).expect("gone"), Standing::Gone("they went".to_owned()));
        assert!(decode(&Value::Integer(1)).is_err() && decode(&Value::Text("{".to_owned())).is_err());
    }
}
