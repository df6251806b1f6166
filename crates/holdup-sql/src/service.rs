//! Services: sections of `~/.pg_service.conf` and of the system's `pg_service.conf`.

use crate::Error;
use crate::surroundings::Surroundings;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Where Debian's libpq and that of a plain build look (`pg_config --sysconfdir`).
const SYSTEM: [&str; 2] = ["/etc/postgresql-common", "/etc"];

/// The pairs of a service: those of the user's file, else those of the system's.
///
/// # Errors
/// When no file defines it, a file that is named does not exist, or a line is no pair.
pub(crate) fn find(name: &str, around: &Surroundings) -> Result<Vec<(String, String)>, Error> {
    let wrong = |why: String| Error::Config(format!("service `{name}`: {why}"));
    let named = around.variable("PGSERVICEFILE").map(PathBuf::from);
    let mut files: Vec<PathBuf> =
        named.iter().cloned().chain(around.home().map(|home| home.join(".pg_service.conf"))).take(1).collect();
    match around.variable("PGSYSCONFDIR") {
        Some(folder) => files.push(PathBuf::from(folder).join("pg_service.conf")),
        None => files.extend(SYSTEM.iter().map(|folder| PathBuf::from(folder).join("pg_service.conf"))),
    }
    for file in &files {
        let text = match holdup_files::read_text_input(file) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound && named.as_ref() != Some(file) => continue,
            Err(e) => return Err(wrong(format!("{}: {e}", file.display()))),
        };
        if let Some(pairs) = section(&text, name)
            .map_err(|line| wrong(format!("{} line {line}: it is no `key=value`", file.display())))?
        {
            return Ok(pairs);
        }
    }
    let places: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    Err(wrong(format!("it is not defined in {}", places.join(", "))))
}

/// The pairs of a section; the number of the line that is none.
fn section(text: &str, name: &str) -> Result<Option<Vec<(String, String)>>, usize> {
    let mut found: Option<Vec<(String, String)>> = None;
    let mut inside = false;
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(head) = line.strip_prefix('[') {
            if found.is_some() {
                break;
            }
            inside = head.strip_suffix(']') == Some(name);
            found = inside.then(Vec::new);
        } else if inside {
            let (key, value) = line.split_once('=').ok_or(number + 1)?;
            found.get_or_insert_default().push((key.to_owned(), value.to_owned()));
        }
    }
    Ok(found)
}
