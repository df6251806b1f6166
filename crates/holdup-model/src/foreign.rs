//! Text of strangers: names, paths, messages and logs that someone else chose, made harmless where it leaves holdup.
//!
//! [`line`] and [`lines`] are for what is put into a report, [`printed`] is for all that a terminal gets, [`markdown`],
//! [`csv_field`] and [`json_in_page`] are for the formats. All show a harmful character as JSON writes it (`\u001b`), so
//! that a JSON document stays the same document; printable text of any language stays as it is.

use std::fmt::Write as _;

/// True if a character commands a terminal, or reorders, hides or breaks the text around it: control characters (C0,
/// DEL, C1), and the format characters and fillers of Unicode that have no shape (Unicode Technical Report 36, 3.7).
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

fn show(c: char, out: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _infallible = write!(out, "\\u{unit:04x}");
    }
}

fn shown(text: &str, keep: impl Fn(char) -> Option<char>) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match keep(c) {
            Some(kept) => out.push(kept),
            None if is_harmful(c) => show(c, &mut out),
            None => out.push(c),
        }
    }
    out
}

/// Foreign text as one line: line feeds, carriage returns and tabs are spaces.
pub fn line(text: &str) -> String {
    shown(text, |c| matches!(c, '\n' | '\r' | '\t').then_some(' '))
}

/// Foreign text that may have lines, such as a console's: line feeds and tabs stay.
pub fn lines(text: &str) -> String {
    shown(&text.replace("\r\n", "\n"), |c| matches!(c, '\n' | '\t').then_some(c))
}

/// A whole output as a terminal may get it: lines stay, and so do bold, underlined and the plain colours
/// (ECMA-48, SGR 0, 1, 4 and 30 to 37).
pub fn printed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&lines(&rest[..at]));
        let length = color(&rest[at..]);
        match length {
            0 => show('\u{1b}', &mut out),
            _ => out.push_str(&rest[at..at + length]),
        }
        rest = &rest[at + length.max(1)..];
    }
    out.push_str(&lines(rest));
    out
}

/// The bytes of the colour that a text begins with; 0 when it begins with none.
fn color(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\u{1b}[").and_then(|rest| rest.split_once('m')).map(|(p, _)| p) else {
        return 0;
    };
    let is_plain = |p: &str| matches!(p.as_bytes(), b"" | b"0" | b"1" | b"4" | [b'3', b'0'..=b'7']);
    if parameters.split(';').all(is_plain) { parameters.len() + 3 } else { 0 }
}

/// The text without colours: `ESC [ … m` and any other control sequence of that kind is left out (ECMA-48, 5.4).
pub fn without_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        out.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_digit() && c != ';');
        rest = match end.and_then(|at| after.get(at..)?.chars().next().map(|c| at + c.len_utf8())) {
            Some(at) => &after[at..],
            None => "",
        };
    }
    out.push_str(rest);
    out
}

/// Foreign text that Markdown, and HTML in it, leave as it is, on one line; cells of tables too.
pub fn markdown(text: &str) -> String {
    let text = line(text);
    let mut out = String::with_capacity(text.len());
    // At the beginning of a line it would begin a quotation.
    let quote = text.trim_start().strip_prefix('>');
    out.push_str(if quote.is_some() { "&gt;" } else { "" });
    for c in quote.unwrap_or(&text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

/// Foreign text as one field of CSV (RFC 4180) on one line. A spreadsheet takes some beginnings for a formula, white
/// space and quotes before them left out: such text gets an apostrophe before it. Numbers need no call of this.
pub fn csv_field(text: &str) -> String {
    let text = line(text);
    let begin = text.trim_start_matches(|c: char| c.is_whitespace() || c == '"');
    // The wide forms are taken for the narrow ones where the language of the spreadsheet has them.
    let text =
        if begin.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) { format!("'{text}") } else { text };
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// A JSON document inside of a page: it cannot end the element that it stands in (`</script>`, `<!--`), and no line
/// separator can end a string for a reader that takes it for a script.
pub fn json_in_page(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' => show(c, &mut out),
            c if is_harmful(c) => show(c, &mut out),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Text with much of what does harm.
    fn hostile() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            any::<char>().prop_map(String::from),
            (0_u32..0xa0).prop_map(|c| char::from_u32(c).map(String::from).unwrap_or_default()),
            (0x2000_u32..0x2070).prop_map(|c| char::from_u32(c).map(String::from).unwrap_or_default()),
            proptest::sample::select(vec![
                "\u{1b}[2J",
                "\u{1b}]0;x\u{7}",
                "\u{1b}[1m",
                "\u{1b}[8m",
                "\u{1b}[31;1m",
                "\r\n",
                "</script>",
                "<!--",
                "=1+1",
                "\",=x",
                "| a |",
                "[x](y)",
                "\u{e0041}",
                "\u{feff}",
                "é",
                "日本",
                "😀",
            ])
            .prop_map(String::from),
        ];
        proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
    }

    /// The fields of one record of RFC 4180.
    fn record(text: &str) -> Vec<String> {
        let (mut fields, mut is_quoted, mut chars) = (vec![String::new()], false, text.chars().peekable());
        while let Some(c) = chars.next() {
            let field = fields.last_mut().unwrap();
            match c {
                '"' if is_quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => fields.push(String::new()),
                c => field.push(c),
            }
        }
        fields
    }

    #[test]
    fn colours_go_and_the_rest_stays() {
        let check = |text: &str, expect: &str| assert_eq!(without_colours(text), expect, "{text:?}");
        check("a \x1b[2;35mb\x1b[0m c", "a b c");
        check("plain", "plain");
        check("cut \x1b[2;3", "cut ");
        check("\x1b[é!", "!");
        check("\x1bother", "\x1bother");
    }

    proptest! {
        #[test]
        fn nothing_harmful_survives(text in hostile()) {
            for one in [line(&text), markdown(&text), csv_field(&text)] {
                prop_assert!(!one.chars().any(is_harmful), "{one:?}");
            }
            prop_assert!(!lines(&text).chars().any(|c| is_harmful(c) && !matches!(c, '\n' | '\t')));
            prop_assert_eq!(line(&line(&text)), line(&text));
            prop_assert_eq!(lines(&lines(&text)), lines(&text));
            prop_assert_eq!(printed(&printed(&text)), printed(&text));
            prop_assert!(!markdown(&text).contains('<') && !markdown(&text).trim_start().starts_with('>'));
        }

        #[test]
        fn only_colours_are_left_of_escape_sequences(text in hostile()) {
            let printed = printed(&text);
            for (at, _) in printed.match_indices('\u{1b}') {
                prop_assert!(color(&printed[at..]) > 0, "{printed:?}");
            }
            let is_left = |c: char| is_harmful(c) && !matches!(c, '\n' | '\t' | '\u{1b}');
            prop_assert!(!printed.chars().any(is_left));
        }

        #[test]
        fn fields_of_csv_can_be_read_back(texts in proptest::collection::vec(hostile(), 1..5)) {
            let written = texts.iter().map(|text| csv_field(text)).collect::<Vec<_>>().join(",");
            let read = record(&written);
            prop_assert_eq!(read.len(), texts.len());
            for (read, text) in read.iter().zip(&texts) {
                prop_assert_eq!(read.strip_prefix('\'').filter(|rest| *rest == line(text)).unwrap_or(read), &line(text));
                prop_assert!(!read.trim_start().starts_with(['=', '+', '-', '@']), "{read:?}");
            }
        }

        #[test]
        fn a_document_in_a_page_is_the_same_document(text in hostile()) {
            let document = serde_json::json!({ "name": text });
            let embedded = json_in_page(&document.to_string());
            let ends = ['<', '>', '&', '\u{2028}', '\u{2029}'];
            prop_assert!(!embedded.contains(ends));
            prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&embedded).unwrap(), &document);
            let on_terminal = printed(&format!("{document:#}"));
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&on_terminal).unwrap(), document);
        }
    }

    #[test]
    fn text_of_any_language_stays() {
        for text in ["übergröße", "日本語 テスト", "हिन्दी", "العربية", "😀 ±5 % · ×1.03 – “x”"]
        {
            assert_eq!((line(text), lines(text), printed(text)), (text.into(), text.into(), text.into()));
        }
        assert_eq!(line("a\u{1b}[31m\nb\u{202e}"), "a\\u001b[31m b\\u202e");
        assert_eq!(lines("a\u{1b}[2Jb\r\nc\td\u{9b}"), "a\\u001b[2Jb\nc\td\\u009b");
        assert_eq!(printed("\u{1b}[1;31ma\u{1b}[0m\u{1b}[8mb"), "\u{1b}[1;31ma\u{1b}[0m\\u001b[8mb");
        assert_eq!(csv_field("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
    }
}
