//! What of the process a connection depends on: the environment and the home directory.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Environment variables and the home directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    /// `None` for those of this process.
    variables: Option<BTreeMap<String, String>>,
}

impl Surroundings {
    /// Those of this process.
    pub(crate) fn here() -> Self {
        Surroundings { variables: None }
    }

    #[cfg(test)]
    pub(crate) fn of(variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Surroundings { variables: Some(variables) }
    }

    #[cfg(test)]
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.get_or_insert_default().insert(name.to_owned(), value.to_owned());
    }

    /// A variable that is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let value = match &self.variables {
            Some(variables) => variables.get(name).cloned(),
            None => std::env::var(name).ok(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// The home directory.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from)
    }
}
