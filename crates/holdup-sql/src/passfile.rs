//! The password file, `~/.pgpass` (passwordFromFile in src/interfaces/libpq/fe-connect.c, 17).

use crate::conninfo::Pairs;
use crate::surroundings::Surroundings;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The longest password file that is read, bytes.
const MOST: u64 = 1 << 20;

/// The folders of sockets that `localhost` stands for in the file: those of Debian's libpq and of a plain build.
const SOCKETS: [&str; 3] = ["/var/run/postgresql", "/run/postgresql", "/tmp"];

/// The password for a connection.
///
/// # Errors
/// Why the file was not read although it is there.
pub(crate) fn find(pairs: &Pairs, around: &Surroundings) -> Result<Option<String>, String> {
    let named = pairs.get("passfile").map(PathBuf::from);
    let Some(path) = named.or_else(|| around.home().map(|home| home.join(".pgpass"))) else { return Ok(None) };
    if !path.exists() {
        return Ok(None);
    }
    let ignored = |why: &str| format!("password file {} was not read: {why}", path.display());
    let file = holdup_files::open_input(&path).map_err(|e| ignored(&e.to_string()))?;
    let metadata = file.metadata().map_err(|e| ignored(&e.to_string()))?;
    if metadata.mode() & 0o077 != 0 {
        return Err(ignored("it has group or world access; permissions should be u=rw (0600) or less"));
    }
    let bytes = holdup_files::read_bounded(file, MOST).map_err(|e| ignored(&e.to_string()))?;
    Ok(password(&String::from_utf8_lossy(&bytes), pairs, around))
}

fn password(text: &str, pairs: &Pairs, around: &Surroundings) -> Option<String> {
    let first = |key: &str| pairs.get(key).and_then(|list| list.split(',').next()).filter(|v| !v.is_empty());
    let host = match first("host").or_else(|| first("hostaddr")) {
        None => "localhost",
        Some(folder) if SOCKETS.contains(&folder) => "localhost",
        Some(host) => host,
    };
    let user = first("user").map(str::to_owned).or_else(|| around.variable("USER")).unwrap_or_default();
    let wanted = [host, first("port").unwrap_or("5432"), first("dbname").unwrap_or(&user), &user];
    text.lines().map(|line| line.trim_end_matches('\r')).filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = fields(line).into_iter();
        let fits = |wanted: &str, field: Option<Field>| field.is_some_and(|f| f.is_star || f.text == wanted);
        wanted.iter().all(|wanted| fits(wanted, fields.next())).then(|| fields.next().map(|f| f.text)).flatten()
    })
}

#[derive(Default)]
struct Field {
    text: String,
    /// A bare `*`, which fits everything.
    is_star: bool,
}

/// The fields of a line; `\` takes the next character as it is. The fifth one ends at a colon or with the line.
fn fields(line: &str) -> Vec<Field> {
    let mut all = vec![Field::default()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let last = all.len() - 1;
        match c {
            '\\' => all[last].text.extend(chars.next()),
            ':' => all.push(Field::default()),
            c => {
                all[last].is_star = c == '*' && all[last].text.is_empty();
                all[last].text.push(c);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conninfo::parse;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let text =
            "# comment\ndb1:5432:results:lab:one\n*:5433:*:lab:t\\:wo\\\\\nlocalhost:*:*:lab:local\n*:*:*:*:any\n";
        let check = |connection: &str, expect: &str| {
            let pairs = parse(connection).expect("a string");
            assert_eq!(password(text, &pairs, &Surroundings::of(&[])).as_deref(), Some(expect), "{connection}");
        };
        check("host=db1 dbname=results user=lab", "one");
        check("host=db1 port=5433 dbname=other user=lab", "t:wo\\");
        check("host=/run/postgresql dbname=d user=lab", "local");
        check("host=db9 user=x", "any");
    }

    #[test]
    fn a_file_that_others_can_read_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pass");
        std::fs::write(&file, "*:*:*:*:geheim\n").expect("written");
        let pairs = parse(&format!("host=h user=u passfile={}", file.display())).expect("a string");
        for (mode, expect) in [(0o600, Some("geheim")), (0o400, Some("geheim")), (0o640, None), (0o604, None)] {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("its mode");
            let found = find(&pairs, &Surroundings::of(&[]));
            match expect {
                Some(_) => assert_eq!(found, Ok(expect.map(str::to_owned)), "{mode:o}"),
                None => assert!(found.expect_err("refused").contains("(0600) or less"), "{mode:o}"),
            }
        }
    }
}
