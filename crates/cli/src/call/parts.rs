//! The parts of a message, in the order in which they were typed.

use crate::problem::Problem;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use sabir_proto::{Content, Json, Part};
use std::io::Read;
use std::path::Path;

/// The largest file that travels inside a message, in bytes. What is larger is given by URL.
const INLINE_BYTES_MAX: u64 = 64 << 20;

/// The parts that were typed for a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    given: Vec<TypedPart>,
    /// A media type that stands before every part flag.
    media_type_without_part: Option<String>,
    /// A media type for a part that has one already.
    second_media_type: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TypedPart {
    flag: &'static str,
    value: String,
    media_type: Option<String>,
}

const POSITIONAL: &str = "message";
const FLAGS: [(&str, &str, &str); 3] = [
    ("text", "TEXT", "A text part; repeatable, parts keep their order"),
    (
        "file",
        "PATH|URL",
        "A file part. A file is sent inside the message, which agents limit; for large files give a URL",
    ),
    ("data", "PATH|-", "A part of JSON from a file or, with -, from standard input"),
];

impl Args for Parts {
    fn augment_args(command: Command) -> Command {
        let command = command.arg(
            Arg::new(POSITIONAL)
                .value_name("TEXT")
                .num_args(0..)
                .action(ArgAction::Append)
                .help("What to say: a text part each; - reads it from standard input"),
        );
        let command = FLAGS.iter().fold(command, |command, (flag, value, help)| {
            command.arg(Arg::new(*flag).long(*flag).value_name(*value).action(ArgAction::Append).help(*help))
        });
        command.arg(
            Arg::new("media-type")
                .long("media-type")
                .value_name("TYPE")
                .action(ArgAction::Append)
                .help("Media type of the part flag before it; otherwise it is told by the file's name"),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Parts {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found: Vec<(usize, &'static str, String)> = Vec::new();
        let names = [POSITIONAL, "text", "file", "data", "media-type"];
        for name in names {
            let values = matches.get_many::<String>(name).into_iter().flatten();
            found.extend(
                matches.indices_of(name).into_iter().flatten().zip(values).map(|(at, v)| (at, name, v.clone())),
            );
        }
        found.sort_by_key(|(at, ..)| *at);
        Ok(Self::ordered(found.into_iter().map(|(_, flag, value)| (flag, value))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Parts {
    fn ordered(typed: impl Iterator<Item = (&'static str, String)>) -> Self {
        let mut parts = Self::default();
        for (flag, value) in typed {
            if flag != "media-type" {
                parts.given.push(TypedPart { flag, value, media_type: None });
                continue;
            }
            match parts.given.iter_mut().rev().find(|given| given.flag != POSITIONAL) {
                None => parts.media_type_without_part = Some(value),
                Some(given) if given.media_type.is_some() => parts.second_media_type = Some(value),
                Some(given) => given.media_type = Some(value),
            }
        }
        parts
    }

    /// One text, for a turn of a conversation.
    pub(crate) fn text(text: &str) -> Self {
        Self::ordered(std::iter::once(("text", text.to_owned())))
    }

    /// The agent, where its address is typed before the message. `configured` tells whether a variable or a file names
    /// an agent already, and `typed` whether a flag does.
    pub(crate) fn take_agent(&mut self, typed: bool, configured: bool) -> Result<Option<String>, Problem> {
        if typed || self.address().is_none() || self.given.len() < 2 {
            return Ok(None);
        }
        if configured {
            return Err(Problem::usage("an address stands before the message, and an agent is configured as well")
                .hint("to call the address: sabir send -a <address> \"<message>\"; to send it: sabir send --text <address> …"));
        }
        Ok(Some(self.given.remove(0).value))
    }

    /// What looks like the address of an agent among the texts: a habit of another tool.
    pub(crate) fn address(&self) -> Option<&str> {
        let first = self.given.first().filter(|given| given.flag == POSITIONAL)?;
        ["http://", "https://"].iter().any(|scheme| first.value.starts_with(scheme)).then_some(first.value.as_str())
    }

    /// The parts as they go over the wire. `stdin` is read at most once.
    pub(crate) fn read(&self, stdin: &mut dyn Read) -> Result<Vec<Part>, Problem> {
        let wrong = |message: String| Problem::usage(message).hint("sabir send --help");
        if let Some(value) = &self.media_type_without_part {
            return Err(wrong(format!("--media-type {value} stands before every part flag")));
        }
        if let Some(value) = &self.second_media_type {
            return Err(wrong(format!("--media-type {value} is the second for the same part")));
        }
        if self.given.is_empty() {
            return Err(Problem::usage("there is nothing to send").hint("sabir send \"hello\""));
        }
        let piped = self.given.iter().filter(|given| given.value == "-" && matches!(given.flag, POSITIONAL | "data"));
        if piped.count() > 1 {
            return Err(wrong("standard input can be read once only".into()));
        }
        self.given.iter().map(|given| given.part(stdin)).collect()
    }
}

impl TypedPart {
    fn part(&self, stdin: &mut dyn Read) -> Result<Part, Problem> {
        let mut part = match self.flag {
            "file" => file(&self.value)?,
            "data" => data(&self.value, stdin)?,
            POSITIONAL if self.value == "-" => Part::text(piped(stdin)?),
            _ => Part::text(self.value.clone()),
        };
        // An explicit media type takes precedence over a guessed one.
        if self.media_type.is_some() {
            part.media_type.clone_from(&self.media_type);
        }
        Ok(part)
    }
}

/// A file's bytes, or a URL that is passed on as it is: nothing is fetched on the agent's behalf.
pub(super) fn file(value: &str) -> Result<Part, Problem> {
    if ["http://", "https://"].iter().any(|scheme| value.starts_with(scheme)) {
        let path = value.split(['?', '#']).next().unwrap_or_default();
        let name = path.splitn(4, '/').nth(3).and_then(|path| path.rsplit('/').next()).filter(|name| !name.is_empty());
        let mut part = Part::new(Content::Url(value.to_owned()));
        part.media_type = name.and_then(media_type).map(str::to_owned);
        part.filename = name.map(str::to_owned);
        return Ok(part);
    }
    let unreadable = |error: std::io::Error| {
        Problem::usage(format!("cannot read --file {value}: {error}")).hint("give the path of a file, or a URL")
    };
    let size = std::fs::metadata(value).map_err(unreadable)?.len();
    if size > INLINE_BYTES_MAX {
        return Err(Problem::usage(format!("--file {value} has {size} bytes, more than {INLINE_BYTES_MAX}"))
            .hint("put it where the agent can fetch it, and give its URL"));
    }
    let mut part = Part::new(Content::Raw(std::fs::read(value).map_err(unreadable)?));
    part.filename = Path::new(value).file_name().map(|name| name.to_string_lossy().into_owned());
    let guessed = part.filename.as_deref().and_then(media_type);
    part.media_type = Some(guessed.unwrap_or("application/octet-stream").to_owned());
    Ok(part)
}

fn data(value: &str, stdin: &mut dyn Read) -> Result<Part, Problem> {
    let text = if value == "-" {
        piped(stdin)?
    } else {
        std::fs::read_to_string(value).map_err(|error| {
            Problem::usage(format!("cannot read --data {value}: {error}")).hint("give the path of a JSON file, or -")
        })?
    };
    let json = Json::parse(text.trim())
        .map_err(|fault| Problem::usage(format!("--data {value} is not JSON: {fault}")).hint("sabir send --help"))?;
    let mut part = Part::data(json);
    part.media_type = Some("application/json".to_owned());
    Ok(part)
}

fn piped(stdin: &mut dyn Read) -> Result<String, Problem> {
    let mut text = String::new();
    let read = stdin.take(INLINE_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| Problem::usage(format!("cannot read standard input: {error}")).hint("sabir send --help"))?;
    Ok(text)
}

/// The media type of a file by its extension.
pub(crate) fn media_type(name: &str) -> Option<&'static str> {
    let extension = name.rsplit_once('.')?.1.to_ascii_lowercase();
    MEDIA_TYPES.iter().find(|(known, _)| *known == extension).map(|(_, media)| *media)
}

/// The extension for a media type.
pub(crate) fn extension(media_type: &str) -> Option<&'static str> {
    let bare = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    MEDIA_TYPES.iter().find(|(_, media)| *media == bare).map(|(extension, _)| *extension)
}

/// The first extension of a type is the one that is given to files.
const MEDIA_TYPES: [(&str, &str); 44] = [
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("ics", "text/calendar"),
    ("js", "text/javascript"),
    ("xml", "application/xml"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    ("pdf", "application/pdf"),
    ("rtf", "application/rtf"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("tar", "application/x-tar"),
    ("wasm", "application/wasm"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
    ("bmp", "image/bmp"),
    ("tiff", "image/tiff"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("ogg", "audio/ogg"),
    ("flac", "audio/flac"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("mov", "video/quicktime"),
    ("bin", "application/octet-stream"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &[&str]) -> Parts {
        let matches =
            Parts::augment_args(Command::new("send")).try_get_matches_from([&["send"], words].concat()).unwrap();
        Parts::from_arg_matches(&matches).unwrap()
    }

    fn json(words: &[&str], stdin: &str) -> Result<String, Problem> {
        typed(words).read(&mut stdin.as_bytes()).map(|parts| serde_json::to_string(&parts).unwrap())
    }

    #[test]
    fn parts_keep_the_order_in_which_they_were_typed() {
        let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        std::fs::write(file.path(), "a,b").unwrap();
        let name = file.path().file_name().unwrap().to_str().unwrap();
        let words = ["one", "--data", "-", "--file", file.path().to_str().unwrap(), "two", "--text", "three"];
        assert_eq!(
            json(&words, "{\"b\":1, \"a\":2}").unwrap(),
            format!(
                r#"[{{"text":"one"}},{{"data":{{"b":1,"a":2}},"mediaType":"application/json"}},{{"raw":"YSxi","filename":"{name}","mediaType":"text/csv"}},{{"text":"two"}},{{"text":"three"}}]"#
            )
        );
    }

    #[test]
    fn a_media_type_belongs_to_the_part_flag_before_it() {
        let words = ["--text", "<b>", "--media-type", "text/html", "--file", "https://h.example/a/q.pdf?x=1", "tail"];
        assert_eq!(
            json(&words, "").unwrap(),
            r#"[{"text":"<b>","mediaType":"text/html"},{"url":"https://h.example/a/q.pdf?x=1","filename":"q.pdf","mediaType":"application/pdf"},{"text":"tail"}]"#
        );
        for words in [
            vec!["--media-type", "text/html", "--text", "a"],
            vec!["a", "--media-type", "text/html"],
            vec!["--text", "a", "--media-type", "b/c", "--media-type", "d/e"],
            vec!["--data", "-", "--data", "-"],
            vec!["-", "--data", "-"],
            vec!["--data", "/nowhere.json"],
            vec!["--file", "/nowhere.json"],
            vec![],
        ] {
            assert_eq!(json(&words, "1").unwrap_err().code, crate::problem::ErrorCode::Usage, "{words:?}");
        }
    }

    #[test]
    fn a_url_is_passed_on_and_standard_input_is_text() {
        assert_eq!(json(&["--file", "https://h.example"], "").unwrap(), r#"[{"url":"https://h.example"}]"#);
        assert_eq!(json(&["-"], "hi\n").unwrap(), r#"[{"text":"hi\n"}]"#);
        assert_eq!(typed(&["https://a.example", "hi"]).address(), Some("https://a.example"));
        assert_eq!(typed(&["hi", "https://a.example"]).address(), None);
    }
}
