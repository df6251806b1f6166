//! The command line of a postmaster.
//!
//! Source: `src/backend/postmaster/postmaster.c:PostmasterMain` and `src/backend/utils/misc/guc.c:ParseLongOption`,
//! PostgreSQL 15 to 18.

/// Letters that take an argument, among those of the postmaster.
const WITH_ARGUMENT: &str = "BcCDdfhklNoprStvW-";

/// What a command line says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) program: String,
    /// `-D`.
    pub(super) data_directory: Option<String>,
    /// Settings in the order in which they stand: name in small letters, value.
    pub(super) settings: Vec<(String, String)>,
    /// True if it starts no server that listens: `--single`, `--version`, `-C` and their like.
    pub(super) is_no_server: bool,
}

impl CommandLine {
    /// Reads the arguments of /proc/PID/cmdline, which are parted by zero bytes.
    pub(super) fn of_cmdline(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut words: Vec<&str> = text.split('\0').collect();
        while words.last().is_some_and(|word| word.is_empty()) {
            words.pop();
        }
        Self::of_words(&words)
    }

    /// Reads postmaster.opts: the program, then each argument in double quotes (`CreateOptsFile`).
    pub(super) fn of_opts_file(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default();
        let (program, rest) = line.split_once(" \"").unwrap_or((line, ""));
        let mut words = vec![program];
        let rest = rest.strip_suffix('"').unwrap_or(rest);
        if !rest.is_empty() {
            words.extend(rest.split("\" \""));
        }
        Self::of_words(&words)
    }

    fn of_words(words: &[&str]) -> Self {
        let mut found = CommandLine::default();
        let mut words = words.iter();
        found.program = words.next().map_or_else(String::new, |word| (*word).to_owned());
        while let Some(word) = words.next() {
            let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty() && *letters != "-") else {
                continue;
            };
            let mut chars = letters.chars();
            while let Some(letter) = chars.next() {
                if !WITH_ARGUMENT.contains(letter) {
                    found.is_no_server |= matches!(letter, 'V' | '?');
                    continue;
                }
                let attached = chars.as_str();
                let argument = if attached.is_empty() { words.next().copied().unwrap_or_default() } else { attached };
                found.option(letter, argument);
                break;
            }
        }
        found
    }

    fn option(&mut self, letter: char, argument: &str) {
        let mut set = |name: &str, value: &str| self.settings.push((name.to_owned(), value.to_owned()));
        match letter {
            'D' => self.data_directory = Some(argument.to_owned()),
            'B' => set("shared_buffers", argument),
            'N' => set("max_connections", argument),
            'C' => self.is_no_server = true,
            'c' | '-' => match argument.split_once('=') {
                Some((name, value)) => set(&name.to_ascii_lowercase().replace('-', "_"), value),
                // `--single`, `--boot`, `--check`, `--describe-config`, `--version`, `--help`.
                None => self.is_no_server |= letter == '-',
            },
            _ => {}
        }
    }

    /// The value of a setting that counts: the last one.
    pub(super) fn last(&self, name: &str) -> Option<&str> {
        self.settings.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_the_postmaster_reads_them() {
        let check = |cmdline: &str, directory: Option<&str>, settings: &[(&str, &str)]| {
            let read = CommandLine::of_cmdline(cmdline.as_bytes());
            assert_eq!(read.data_directory.as_deref(), directory, "{cmdline:?}");
            let found: Vec<(&str, &str)> = read.settings.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            assert_eq!(found, settings, "{cmdline:?}");
            assert!(!read.is_no_server, "{cmdline:?}");
        };
        check("/usr/bin/postgres\0-D\0/data\0", Some("/data"), &[]);
        check(
            "postgres\0-D/da ta\0-c\0config_file=/etc/a=b.conf\0",
            Some("/da ta"),
            &[("config_file", "/etc/a=b.conf")],
        );
        check("postgres\0-B\x00512\0-N20\0", None, &[("shared_buffers", "512"), ("max_connections", "20")]);
        check(
            "postgres\0--Shared-Buffers=1GB\0--huge_pages=off\0",
            None,
            &[("shared_buffers", "1GB"), ("huge_pages", "off")],
        );
        check("postgres\0-iFB64\0-p\x005433\0", None, &[("shared_buffers", "64")]);
        check("postgres\0-cmax_connections=7\0\0\0", None, &[("max_connections", "7")]);
        check("postgres\0-h\0\0-D\0/d\0", Some("/d"), &[]);
        check("postgres\0-D\0", Some(""), &[]);
        check("", None, &[]);
    }

    #[test]
    fn programs_that_are_no_server_are_recognised() {
        for other in
            ["postgres\0--single\0-D\0/d\0db\0", "postgres\0--version\0", "postgres\0-V\0", "postgres\0-C\0port\0"]
        {
            assert!(CommandLine::of_cmdline(other.as_bytes()).is_no_server, "{other:?}");
        }
    }

    #[test]
    fn the_file_of_options_is_read() {
        let read =
            CommandLine::of_opts_file("/usr/lib/postgresql/15/bin/postgres \"-D\" \"/my data\" \"-c\" \"port=1\"\n");
        assert_eq!(read.program, "/usr/lib/postgresql/15/bin/postgres");
        assert_eq!((read.data_directory.as_deref(), read.last("port")), (Some("/my data"), Some("1")));
        assert_eq!(CommandLine::of_opts_file("postgres").settings, []);
        assert_eq!(CommandLine::of_opts_file(""), CommandLine::default());
    }
}
