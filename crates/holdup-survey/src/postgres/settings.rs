//! The settings of a server: from SQL, or from its command line and files.

use super::conf::{self, Configuration, Setting, absolute};
use super::files::{Contents, Prefixed, Reader};
use super::find::FoundServer;
use super::sql::Session;
use super::{AS_OWNER, BY_SQL};
use holdup_host::guc;
use holdup_model::survey::{HugePagesAsked, Reading};

/// Settings that are looked at, for what is said about those that stand twice.
const WATCHED: [&str; 3] = ["shared_buffers", "huge_pages", "max_connections"];

/// The least of `shared_buffers`, in blocks (`src/backend/utils/misc/guc_tables.c`, PostgreSQL 15 to 18).
const LEAST_BUFFERS: i32 = 16;

/// The most connections (`MAX_BACKENDS` of `src/include/postmaster/postmaster.h`).
const MOST_CONNECTIONS: i32 = 0x3_FFFF;

/// Reads the files of a server.
pub(super) fn contents(reader: &Reader<'_>, place: &FoundServer) -> Contents {
    let files = Prefixed { reader, prefix: &place.prefix };
    let mut settings = Configuration::default();
    match main_file(place) {
        Ok(path) => settings.extend(Configuration::read(&files, &path)),
        Err(why) => settings.entries.push(conf::Entry::Gap(why)),
    }
    match place.data_directory.get() {
        // A file that ALTER SYSTEM has never made is no gap; a folder that may not be entered is one.
        Some(folder) => {
            let path = format!("{folder}/postgresql.auto.conf");
            match conf::Files::read(&files, &path) {
                Err(unread) if unread.is_gone => {}
                _ => settings.extend(Configuration::read(&files, &path)),
            }
        }
        None => {
            let why = place.data_directory.why_unknown.clone().unwrap_or_default();
            settings.entries.push(conf::Entry::Gap(format!("where postgresql.auto.conf is, is not known: {why}")));
        }
    }
    let read = place.version_file().map(|path| reader.text(&path));
    Contents { settings, version: read.map(|read| read.map_err(|e| e.to_string())) }
}

/// A value in words, with its source.
type Text = Reading<Option<String>>;

/// The settings of one server.
pub(super) struct Settings<'a> {
    session: Option<&'a Session>,
    place: &'a FoundServer,
    files: Configuration,
}

impl<'a> Settings<'a> {
    pub(super) fn of(files: Configuration, place: &'a FoundServer, session: Option<&'a Session>) -> Self {
        Settings { session, place, files }
    }

    /// The settings of a server whose files are not to be seen here.
    pub(super) fn without_files(place: &'a FoundServer, session: Option<&'a Session>) -> Self {
        Settings { session, place, files: Configuration::default() }
    }

    /// What is set by command line and files; `None` inside: nothing.
    fn set(&self, name: &str) -> Text {
        match self.place.command_line.get() {
            Some(line) => {
                if let Some(value) = line.last(name) {
                    return Reading::found(Some(value.to_owned()), self.place.command_line.source.as_str());
                }
            }
            None => {
                let why = self.place.command_line.why_unknown.clone().unwrap_or_default();
                return Reading::unknown(self.place.command_line.source.as_str(), why).but(AS_OWNER);
            }
        }
        match self.files.last(name) {
            Ok(Some(setting)) => Reading::found(Some(setting.value.clone()), at(setting)),
            Ok(None) => {
                Reading::found(None, format!("not in the server's files or command line: the default of {name}"))
            }
            Err(why) => Reading::unknown(format!("the server's files ({name})"), why).but(AS_OWNER),
        }
    }

    /// A setting as a number in its own unit; `default` where nothing sets it.
    fn integer(&self, name: &str, base: Option<guc::Unit>, bounds: (i32, i32), default: i32) -> Reading<i32> {
        self.set(name).and_then(|text| {
            let Some(text) = text else { return Ok(default) };
            let value = guc::integer(&text, base).map_err(|why| format!("{name}: {why}"))?;
            if (bounds.0..=bounds.1).contains(&value) {
                return Ok(value);
            }
            Err(format!("{name} = `{text}` is outside of what the server takes, {} to {}", bounds.0, bounds.1))
        })
    }

    /// `shared_buffers` in bytes, as far as command line and files say.
    fn shared_buffers_set(&self) -> Reading<u64> {
        let set = self.integer("shared_buffers", Some(guc::BLOCKS), (LEAST_BUFFERS, i32::MAX / 2), 16_384);
        let is_bare = self.set("shared_buffers").value.flatten().is_some_and(|text| guc::integer(&text, None).is_ok());
        let mut bytes = set.map(|blocks| u64::from(blocks.unsigned_abs()) * 8192);
        if is_bare {
            bytes.source.push_str(", in blocks of 8 kB unless the server was built with others");
        }
        bytes
    }

    /// `shared_buffers` in bytes. `shared_bytes` is the size of the shared memory that holds it.
    pub(super) fn shared_buffers(&self, shared_bytes: Option<u64>) -> Reading<u64> {
        if let Some(bytes) = self.session.and_then(|session| session.bytes("shared_buffers")) {
            return Reading::found(bytes, "pg_settings (shared_buffers)");
        }
        let set = self.shared_buffers_set();
        match set.get().and_then(|bytes| misfit(*bytes, shared_bytes?)) {
            Some(why) => Reading::unknown(set.source.as_str(), format!("{} has {why}", set.source)).but(BY_SQL),
            None => set,
        }
    }

    /// `huge_pages` as set.
    pub(super) fn huge_pages(&self) -> Reading<HugePagesAsked> {
        if let Some(value) = self.session.and_then(|session| session.setting("huge_pages")) {
            return Reading::found(value.to_owned(), "pg_settings (huge_pages)").and_then(|text| huge_pages(&text));
        }
        self.set("huge_pages").and_then(|text| text.map_or(Ok(HugePagesAsked::Try), |text| huge_pages(&text)))
    }

    /// `max_connections`.
    pub(super) fn max_connections(&self) -> Reading<u32> {
        let in_force = self.session.and_then(|session| session.setting("max_connections"));
        if let Some(number) = in_force.and_then(|value| value.parse().ok()) {
            return Reading::found(number, "pg_settings (max_connections)");
        }
        self.integer("max_connections", None, (1, MOST_CONNECTIONS), 100).map(i32::unsigned_abs)
    }

    /// True if titles of processes say what they do; `None` when it is not known.
    pub(super) fn updates_titles(&self) -> Option<bool> {
        match self.session.and_then(|session| session.setting("update_process_title")) {
            Some(value) => guc::boolean(value),
            None => self.set("update_process_title").value?.map_or(Some(true), |text| guc::boolean(&text)),
        }
    }

    /// What is odd: settings that stand twice, files that PostgreSQL would refuse, a restart that is pending.
    pub(super) fn notes(&self, shared_bytes: Option<u64>) -> Vec<String> {
        let mut notes: Vec<String> = WATCHED.iter().filter_map(|name| self.stands_twice(name)).collect();
        notes.extend(WATCHED.iter().filter_map(|name| self.is_pending(name)));
        notes.extend(self.does_not_fit(shared_bytes));
        notes.extend(
            self.files
                .errors
                .iter()
                .map(|error| format!("{error}: PostgreSQL takes nothing from its files as long as this stands there.")),
        );
        notes
    }

    fn stands_twice(&self, name: &str) -> Option<String> {
        let mut places: Vec<(String, &str)> =
            self.files.all(name).map(|setting| (at(setting), setting.value.as_str())).collect();
        if let Some(line) = self.place.command_line.get() {
            let given = line.settings.iter().filter(|(known, _)| known == name);
            places.extend(given.map(|(_, value)| (self.place.command_line.source.clone(), value.as_str())));
        }
        let (winner, losers) = places.split_last()?;
        if losers.is_empty() {
            return None;
        }
        // A file may say it thousands of times.
        const MOST: usize = 8;
        let more = losers.len().saturating_sub(MOST);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let losers: Vec<String> =
            losers.iter().take(MOST).map(|(place, value)| format!("`{value}` in {place}")).collect();
        Some(format!("{name} = `{}` in {} counts and hides {}{more}.", winner.1, winner.0, losers.join(", ")))
    }

    /// A value in the files that is not the one in force.
    fn is_pending(&self, name: &str) -> Option<String> {
        let session = self.session?;
        let in_force = session.shown(name)?;
        let set = self.set(name);
        let differs = match (&set.value, name) {
            (Some(Some(_)), "shared_buffers") => {
                self.shared_buffers_set().value.is_some_and(|bytes| Some(bytes) != session.bytes(name))
            }
            (Some(Some(text)), "huge_pages") => {
                huge_pages(text).ok() != session.setting(name).and_then(|v| huge_pages(v).ok())
            }
            (Some(Some(text)), _) => {
                guc::integer(text, None).ok().map(|n| n.to_string()).as_deref() != session.setting(name)
            }
            _ => false,
        };
        match (&set.value, differs, session.is_pending(name)) {
            (Some(Some(text)), true, _) => {
                Some(format!("{name} = `{text}` in {}, but {in_force} is in force: a restart is pending.", set.source))
            }
            (_, _, true) => {
                Some(format!("{name} was changed in the files, but {in_force} is in force: a restart is pending."))
            }
            _ => None,
        }
    }

    /// Without SQL the size of the shared memory is the only thing that can speak against the files.
    fn does_not_fit(&self, shared_bytes: Option<u64>) -> Option<String> {
        let whole = shared_bytes.filter(|_| self.session.is_none())?;
        let set = self.shared_buffers_set();
        let why = misfit(set.value?, whole)?;
        Some(format!("shared_buffers in {} has {why}.", set.source))
    }
}

/// Why a pool of this size cannot be what is in a shared memory of that size. Beside the pool it holds what belongs to
/// each buffer, some 3 %, and what grows with connections and locks, which is rarely more than 1 GB.
fn misfit(bytes: u64, whole: u64) -> Option<String> {
    if bytes > whole {
        return Some(format!(
            "{bytes} bytes, but all shared memory of the server has {whole}: it was set after the start, and a restart is \
             pending"
        ));
    }
    (whole > bytes.saturating_mul(2).saturating_add(1 << 30)).then(|| {
        format!(
            "{bytes} bytes, but the shared memory of the server has {whole}: it seems to have been set after the start, and \
             then a restart is pending"
        )
    })
}

fn at(setting: &Setting) -> String {
    format!("{}:{}", setting.file, setting.line)
}

/// The words of `huge_pages` (`src/backend/utils/misc/guc_tables.c:huge_pages_options`): as an enum it takes the
/// truth values in full only.
fn huge_pages(text: &str) -> Result<HugePagesAsked, String> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(HugePagesAsked::On),
        "off" | "false" | "no" | "0" => Ok(HugePagesAsked::Off),
        "try" => Ok(HugePagesAsked::Try),
        _ => Err(format!("huge_pages = `{text}` is none of on, off, try")),
    }
}

/// The path of postgresql.conf: `config_file`, or in the folder that -D names, or in the data directory.
fn main_file(place: &FoundServer) -> Result<String, String> {
    let line = place.command_line.get();
    let folder = line.and_then(|line| line.data_directory.as_deref());
    match line.and_then(|line| line.last("config_file")) {
        Some(path) if path.starts_with('/') => return Ok(absolute(path, "/")),
        Some(path) => {
            return Err(format!("config_file = `{path}` begins where the server was started, which is not known"));
        }
        None => {}
    }
    let data_directory = place.data_directory.get().map(String::as_str);
    match folder.filter(|folder| folder.starts_with('/')).or(data_directory) {
        Some(folder) => Ok(absolute("postgresql.conf", &format!("{}/-", folder.trim_end_matches('/')))),
        None => Err(format!(
            "the data directory is not known: {}",
            place.data_directory.why_unknown.as_deref().unwrap_or_default()
        )),
    }
}
