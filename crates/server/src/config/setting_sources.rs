//! Where each setting comes from, so that no value is dropped silently.
//!
//! A file, a variable, a platform and a flag may all set the same key, and only one of them is used. This module notes
//! the others by key, and the start shows the notes to the operator. A note never contains a value of a file or a
//! variable, because it may be a secret.

use std::collections::BTreeMap;
use toml::{Table, Value};

/// What set each key, and which values are not used.
#[derive(Debug, Clone, Default)]
pub struct SettingSources {
    /// The file or variable that set a key, such as `store.url`.
    set_by: BTreeMap<String, String>,
    /// Notes for the operator about a key.
    notes: BTreeMap<String, String>,
}

impl SettingSources {
    /// The keys that a file sets.
    pub(super) fn of_file(table: &Table, file: &str) -> Self {
        let set_by = leaves(table).into_keys().map(|key| (key, file.to_owned())).collect();
        Self { set_by, notes: BTreeMap::new() }
    }

    /// Notes the keys that a variable has changed.
    pub(super) fn change(&mut self, before: &Table, after: &Table, variable: &str) {
        let before = leaves(before);
        for (key, value) in leaves(after) {
            if before.get(&key) != Some(&value) {
                self.replace(&key, variable);
                self.set_by.insert(key, variable.to_owned());
            }
        }
    }

    /// Sets a key of a section if it is not set. If it is, the other value is noted as not used.
    pub(super) fn fill(&mut self, section: &mut Table, key: &str, value: Value, by: &str) {
        let name = key.rsplit('.').next().unwrap_or(key);
        let note = match section.get(name) {
            Some(known) if *known == value => return,
            Some(_) => {
                format!("{by} is not used, because {key} is set by {}", self.of(key).unwrap_or("the configuration"))
            }
            None => {
                let note = format!("{key} = {value} was taken from {by}");
                section.insert(name.to_owned(), value);
                self.set_by.insert(key.to_owned(), by.to_owned());
                note
            }
        };
        self.notes.insert(key.to_owned(), note);
    }

    /// What set a key: a file or a variable. `None` if its default is used.
    pub fn of(&self, key: &str) -> Option<&str> {
        self.set_by.get(key).map(String::as_str)
    }

    /// Notes that another source, such as a flag, replaces a key or all keys of a section.
    pub fn replace(&mut self, key: &str, by: &str) {
        let is_meant = |set: &str| set.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let Some(origin) = self.set_by.iter().find(|(set, _)| is_meant(set)).map(|(_, origin)| origin) else { return };
        let note = format!("{key} of {origin} is not used, because {by} replaces it");
        self.notes.insert(key.to_owned(), note);
    }

    /// The notes, each a sentence that names the keys.
    pub fn notes(&self) -> Vec<String> {
        self.notes.values().cloned().collect()
    }
}

/// All values that are no tables, by their path.
fn leaves(table: &Table) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                found.extend(leaves(inner).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)));
            }
            value => drop(found.insert(key.clone(), value.clone())),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn what_does_not_count_is_noted_without_its_value() {
        let file = table("[store]\nurl = \"sqlite:hunter2\"\n[workspace]\napps = \"apps\"\n[[agent]]\nname = \"a\"");
        let mut origins = SettingSources::of_file(&file, "sabir.toml");
        assert_eq!(origins.notes(), Vec::<String>::new());
        let mut changed = file.clone();
        super::super::set(&mut changed, "store__url", Value::from("sqlite:other")).unwrap();
        super::super::set(&mut changed, "store__durability", Value::from("normal")).unwrap();
        origins.change(&file, &changed, "SABIR_STORE__URL");
        assert_eq!(origins.notes(), ["store.url of sabir.toml is not used, because SABIR_STORE__URL replaces it"]);
        origins.replace("store.url", "--data");
        origins.replace("server.listen", "--listen");
        origins.replace("agent", "--exec");
        origins.replace("workspace", "--exec");
        assert_eq!(
            origins.notes(),
            [
                "agent of sabir.toml is not used, because --exec replaces it",
                "store.url of SABIR_STORE__URL is not used, because --data replaces it",
                "workspace of sabir.toml is not used, because --exec replaces it",
            ]
        );
    }
}
