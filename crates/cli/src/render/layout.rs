//! The layouts of fields: one line per field for programs, a table or aligned columns for people.
//!
//! A list is told by its first label, which begins every entry, or by the total below it. It becomes a table with a line
//! for each entry; columns that do not fit are named below it. Everything else becomes `label  value` in two columns.

use super::paint::{Paint, Tone, state_word};
use unicode_width::UnicodeWidthStr;

/// What one field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldValue {
    /// One line.
    Line(String),
    /// Several lines, or a text that is shown as it is.
    Block(String),
}

impl FieldValue {
    fn text(&self) -> &str {
        match self {
            Self::Line(text) | Self::Block(text) => text,
        }
    }
}

/// A label and its value, both harmless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) label: String,
    pub(super) value: FieldValue,
}

/// Labels that stand below a list and belong to none of its entries.
const FOOTERS: [&str; 2] = ["Total", "Next page token"];
/// The narrowest that a column of words is cut to.
const CUT_MIN: usize = 24;
/// The widest column of labels; a longer label pushes its value to the right.
const LABEL_MAX: usize = 22;
const GAP: &str = "  ";

/// One line or block per field.
pub(super) fn plain(fields: &[Field]) -> String {
    let mut text = String::new();
    for Field { label, value } in fields {
        match value {
            FieldValue::Line(line) => text += &format!("{label}: {line}\n"),
            FieldValue::Block(content) => {
                text += &format!("{label}:\n");
                for line in content.trim_end_matches('\n').split('\n') {
                    text += &format!("  {line}\n");
                }
                text.push('\n');
            }
        }
    }
    text
}

/// For people, in so many columns.
pub(super) fn pretty(fields: &[Field], paint: Paint, columns: Option<usize>) -> String {
    let Some(first) = fields.first() else { return String::new() };
    let footer_at = fields.iter().rposition(|field| !FOOTERS.contains(&field.label.as_str())).map_or(0, |at| at + 1);
    let (body, footer) = fields.split_at(footer_at);
    let begins = body.iter().filter(|field| field.label == first.label).count();
    let has_total = footer.iter().any(|field| field.label == "Total");
    if !has_total && begins < 2 {
        return aligned(fields, paint);
    }
    let mut text = match body {
        [] => String::new(),
        body => Table::of(body).print(paint, columns),
    };
    for Field { label, value } in footer {
        let line = match (label.as_str(), value.text()) {
            ("Total", "0") => "nothing to show".to_owned(),
            ("Total", count) => format!("{count} in all"),
            (label, value) => format!("{}: {value}", label.to_lowercase()),
        };
        text += &(paint.tint(Tone::Dim, &line) + "\n");
    }
    text
}

/// `label  value`, the values one below the other.
fn aligned(fields: &[Field], paint: Paint) -> String {
    let lines = fields.iter().filter(|field| matches!(field.value, FieldValue::Line(_)));
    let width = lines.map(|field| field.label.width()).filter(|width| *width <= LABEL_MAX).max().unwrap_or(0);
    let mut text = String::new();
    for Field { label, value } in fields {
        match value {
            FieldValue::Line(line) => {
                let pad = " ".repeat(width.saturating_sub(label.width()));
                text += &format!("{}{pad}{GAP}{}\n", paint.tint(Tone::Dim, label), paint.state(&display_value(line)));
            }
            FieldValue::Block(content) => {
                text += &format!("{}\n", paint.tint(Tone::Dim, label));
                for line in content.trim_end_matches('\n').split('\n') {
                    text += &format!("{GAP}{line}\n");
                }
            }
        }
    }
    text
}

/// A value for people: states in words, times without fractions of a second.
fn display_value(value: &str) -> String {
    if let Some((seconds, fraction)) = value.split_once('.')
        && seconds.len() == 19
        && seconds.as_bytes()[10] == b'T'
        && fraction.ends_with('Z')
    {
        return format!("{seconds}Z");
    }
    state_word(value)
}

/// Entries of a list in columns.
struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn of(fields: &[Field]) -> Self {
        let mut table = Self { headings: Vec::new(), rows: Vec::new() };
        let first = fields.first().map(|field| field.label.clone()).unwrap_or_default();
        for Field { label, value } in fields {
            if *label == first {
                table.rows.push(Vec::new());
            }
            let column = table.headings.iter().position(|heading| heading == label).unwrap_or_else(|| {
                table.headings.push(label.clone());
                table.headings.len() - 1
            });
            let Some(row) = table.rows.last_mut() else { continue };
            row.resize(row.len().max(column + 1), String::new());
            let cell = display_value(value.text()).split_whitespace().collect::<Vec<_>>().join(" ");
            if row[column].is_empty() {
                row[column] = cell;
            } else {
                row[column] += &format!(", {cell}");
            }
        }
        table.rows.iter_mut().for_each(|row| row.resize(table.headings.len(), String::new()));
        table
    }

    /// The width of a column with its heading.
    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].width());
        cells.chain([self.headings[column].width()]).max().unwrap_or(0)
    }

    /// The columns that are shown with their widths, and the headings of those that do not fit.
    fn fit(&self, columns: Option<usize>) -> (Vec<(usize, usize)>, Vec<&str>) {
        let told = |column: &usize| self.rows.iter().any(|row| !matches!(row[*column].as_str(), "" | "-"));
        let mut shown: Vec<(usize, usize)> =
            (0..self.headings.len()).filter(told).map(|column| (column, self.width(column))).collect();
        let mut left_out = Vec::new();
        let Some(room) = columns else { return (shown, left_out) };
        let total = |shown: &[(usize, usize)]| shown.iter().map(|(_, width)| width + GAP.len()).sum::<usize>();
        // Words may be cut, identifiers may not: half an identifier is none.
        let is_words = |column: usize| column > 0 && self.rows.iter().any(|row| row[column].contains(' '));
        while total(&shown) > room + GAP.len() {
            let widest = shown.iter_mut().filter(|(column, width)| is_words(*column) && *width > CUT_MIN);
            if let Some((_, width)) = widest.max_by_key(|(_, width)| *width) {
                *width -= 1;
                continue;
            }
            if shown.len() < 2 {
                break;
            }
            // Identifiers beside the first are for programs; then what stands last.
            let is_identifier =
                |column: usize| [" ID", "Digest"].iter().any(|end| self.headings[column].ends_with(end));
            let least = shown.iter().skip(1).rposition(|(column, _)| is_identifier(*column)).map(|at| at + 1);
            let (column, _) = shown.remove(least.unwrap_or(shown.len() - 1));
            left_out.push(self.headings[column].as_str());
        }
        left_out.reverse();
        (shown, left_out)
    }

    fn print(&self, paint: Paint, columns: Option<usize>) -> String {
        let (shown, left_out) = self.fit(columns);
        let mut text = String::new();
        let line = |cells: &[String], tint: &dyn Fn(usize, &str) -> String| {
            let mut line = String::new();
            for (at, (column, width)) in shown.iter().enumerate() {
                let cell = cut(&cells[*column], *width);
                let pad = if at + 1 < shown.len() { width.saturating_sub(cell.width()) + GAP.len() } else { 0 };
                line += &format!("{}{}", tint(*column, &cell), " ".repeat(pad));
            }
            line.trim_end().to_owned() + "\n"
        };
        text += &line(&self.headings, &|_, cell| paint.tint(Tone::Dim, cell));
        for row in &self.rows {
            text += &line(row, &|column, cell| match column {
                0 => paint.tint(Tone::Strong, cell),
                _ => paint.state(cell),
            });
        }
        if !left_out.is_empty() {
            let words = format!("no room for: {} (-o text shows everything)", left_out.join(", "));
            text += &(paint.tint(Tone::Dim, &words) + "\n");
        }
        text
    }
}

/// A text in at most so many columns; a cut is marked.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    for c in text.chars() {
        shown.push(c);
        if shown.width() + 1 > width {
            shown.pop();
            break;
        }
    }
    shown + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Vec<Field> {
        let field =
            |(label, value): &(&str, &str)| Field { label: (*label).into(), value: FieldValue::Line((*value).into()) };
        pairs.iter().map(field).collect()
    }

    #[test]
    fn a_list_is_a_table_with_a_line_for_each_entry() {
        let list = fields(&[
            ("Agent", "prices"),
            ("Kind", "exec"),
            ("State", "TASK_STATE_INPUT_REQUIRED"),
            ("Agent", "ledger-of-the-house"),
            ("Kind", "a2a"),
            ("URL", "http://127.0.0.1:1"),
            ("URL", "http://127.0.0.1:2"),
            ("Total", "2"),
        ]);
        assert_eq!(
            pretty(&list, Paint::default(), None),
            "Agent                Kind  State           URL\n\
             prices               exec  input required\n\
             ledger-of-the-house  a2a                   http://127.0.0.1:1, http://127.0.0.1:2\n\
             2 in all\n"
        );
    }

    #[test]
    fn a_table_that_does_not_fit_cuts_words_first_and_names_the_columns_it_leaves_out() {
        let id = "01a1e3c5-05a7-7000-8040-4bc7fde7de84";
        let list = fields(&[
            ("Task ID", id),
            ("Question", "Which colour should it be, and how large?"),
            ("Caller", "k"),
            ("Total", "1"),
        ]);
        let text = pretty(&list, Paint::default(), Some(74));
        assert!(text.contains(id) && text.contains('…') && text.lines().all(|line| line.width() <= 74), "{text}");
        let narrow = pretty(&list, Paint::default(), Some(50));
        assert!(narrow.contains(id) && narrow.contains("no room for: Question, Caller"), "{narrow}");
    }

    #[test]
    fn an_empty_list_says_so_and_a_single_thing_is_aligned() {
        assert_eq!(pretty(&fields(&[("Total", "0")]), Paint::default(), None), "nothing to show\n");
        let one = [
            Field { label: "Key ID".into(), value: FieldValue::Line("k-1".into()) },
            Field { label: "Created".into(), value: FieldValue::Line("2026-11-16T09:51:42.967Z".into()) },
            Field { label: "Text".into(), value: FieldValue::Block("a\nb".into()) },
        ];
        assert_eq!(
            pretty(&one, Paint::default(), None),
            "Key ID   k-1\nCreated  2026-11-16T09:51:42Z\nText\n  a\n  b\n"
        );
    }

    #[test]
    fn wide_characters_count_as_wide() {
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 3), "abc");
    }
}
