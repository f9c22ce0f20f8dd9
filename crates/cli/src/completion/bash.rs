//! Completion in bash.
//!
//! Bash takes the line apart at colons, so that `http://127.0.0.1:4000` arrives as five words, and puts a candidate in the
//! place of the last of them. This script takes the line apart at spaces and cuts from the candidates what bash keeps.

use clap::Command;
use clap_complete::engine::complete;
use clap_complete::env::EnvCompleter;
use std::ffi::OsString;
use std::io::{Error, Write};
use std::path::Path;

pub(super) struct Bash;

const SCRIPT: &str = r#"_sabir() {
    local line=${COMP_LINE:0:COMP_POINT} current prefix
    local -a words
    read -ra words <<<"$line"
    if [[ $line == *' ' ]]; then
        words+=('')
    fi
    current=${words[${#words[@]} - 1]}
    mapfile -t COMPREPLY < <(VARIABLE=bash COMPLETER -- "${words[@]}" 2>/dev/null)
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        prefix=${current%"${current##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    fi
}
complete -o default -F _sabir BIN
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == self.name()
    }

    fn write_registration(
        &self,
        variable: &str,
        _name: &str,
        bin: &str,
        completer: &str,
        buffer: &mut dyn Write,
    ) -> Result<(), Error> {
        let completer = format!("'{}'", completer.replace('\'', r"'\''"));
        let script = SCRIPT.replace("VARIABLE", variable).replace("COMPLETER", &completer).replace("BIN", bin);
        buffer.write_all(script.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        directory: Option<&Path>,
        buffer: &mut dyn Write,
    ) -> Result<(), Error> {
        let last = words.len().saturating_sub(1);
        let is_option = words.last().is_some_and(|word| word.to_string_lossy().starts_with('-'));
        for candidate in complete(command, words, last, directory)? {
            let value = candidate.get_value().to_string_lossy();
            // Bash has no groups: forty options would hide the few values that fit. A dash asks for them.
            if is_option || !value.starts_with('-') {
                writeln!(buffer, "{value}")?;
            }
        }
        Ok(())
    }
}
