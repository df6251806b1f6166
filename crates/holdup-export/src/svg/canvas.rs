//! What pictures are made of: lines, texts, marks, and a sheet with title, legend and note around the drawing.

use std::fmt::Write as _;

/// The width of every picture, and the size of its text, px.
pub(super) const WIDTH: f64 = 800.0;
const TEXT: f64 = 12.0;
/// Between edge and content.
const EDGE: f64 = 14.0;
/// How wide a character is, of its size, in a sans-serif face that is rather wide.
const CHARACTER: f64 = 0.56;

pub(super) const INK: &str = "#1d2329";
pub(super) const SOFT: &str = "#55606b";
pub(super) const GRID: &str = "#dcdfe3";
pub(super) const PAPER: &str = "#ffffff";
pub(super) const MARGIN: &str = "#e4e7ea";
pub(super) const GOOD: &str = "#00654a";
pub(super) const BAD: &str = "#a13f00";

/// Where a text has its place.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A series: its name, and whether it is a replica of another one.
#[derive(Clone)]
pub(super) struct Series {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) is_replica: bool,
}

impl Series {
    /// The colours of the page on its light ground: Okabe and Ito's, moved for contrast.
    pub(super) fn color(&self) -> &'static str {
        const COLORS: [&str; 7] = ["#2b3138", "#0072b2", "#d55e00", "#009e73", "#b0568c", "#b07c00", "#2a8fc7"];
        match self.at {
            _ if self.is_replica => "#868e96",
            0 => COLORS[0],
            at => COLORS[1 + (at - 1) % (COLORS.len() - 1)],
        }
    }

    pub(super) fn dash(&self) -> &'static str {
        if self.is_replica { "2 4" } else { "none" }
    }
}

/// A text within XML, without the characters that XML 1.0 has no place for.
fn escaped(text: &str) -> String {
    let kept: String = text.chars().filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect();
    kept.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// How wide a text is about, px.
pub(super) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * TEXT * CHARACTER
}

/// A text that is cut to a width.
pub(super) fn cut(text: &str, room: f64) -> String {
    let most = (room / (TEXT * CHARACTER)).max(4.0) as usize;
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Lines of about a width, broken between words.
fn wrapped(text: &str, room: f64, size: f64) -> Vec<String> {
    let most = (room / (size * CHARACTER)) as usize;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A picture that is being drawn.
pub(super) struct Sheet {
    body: String,
    title: String,
    note: String,
    /// Where the drawing begins.
    pub(super) top: f64,
}

impl Sheet {
    /// A sheet with its title and, of several series, a legend.
    pub(super) fn new(chart: &holdup_report::Chart, legend: &[Series]) -> Self {
        let mut sheet = Sheet { body: String::new(), title: chart.title.clone(), note: chart.note.clone(), top: EDGE };
        if !chart.context.is_empty() {
            sheet.top += 14.0;
            sheet.sized((EDGE, sheet.top), 12.0, SOFT, "", &chart.context);
        }
        for line in wrapped(&chart.title, WIDTH - 2.0 * EDGE, 16.0) {
            sheet.top += 20.0;
            sheet.sized((EDGE, sheet.top), 16.0, INK, " font-weight=\"600\"", &line);
        }
        sheet.top += 6.0;
        if legend.len() > 1 {
            sheet.legend(legend);
        }
        sheet.top += 18.0;
        sheet
    }

    fn legend(&mut self, series: &[Series]) {
        let mut x = EDGE;
        self.top += 18.0;
        for one in series {
            let name = cut(&one.name, 300.0);
            let wide = 40.0 + width(&name);
            self.wrap(&mut x, wide);
            let y = self.top - 4.0;
            self.line((x, y), (x + 24.0, y), one.color(), 1.8, one.dash());
            self.mark(one, (x + 12.0, y), 4.0, true);
            self.text((x + 30.0, self.top), Anchor::Start, INK, &name);
            x += wide + 14.0;
        }
    }

    /// Begins a new line of a legend where the next entry has no room.
    fn wrap(&mut self, x: &mut f64, wide: f64) {
        if *x > EDGE && *x + wide > WIDTH - EDGE {
            *x = EDGE;
            self.top += 18.0;
        }
    }

    /// Names of colours.
    pub(super) fn keys(&mut self, keys: &[(&str, &str)]) {
        let mut x = EDGE;
        self.top += 8.0;
        for (name, color) in keys {
            let name = cut(name, 260.0);
            let wide = 20.0 + width(&name);
            self.wrap(&mut x, wide);
            self.rect((x, self.top - 10.0), (12.0, 12.0), color, 1.0);
            self.text((x + 17.0, self.top), Anchor::Start, INK, &name);
            x += wide + 14.0;
        }
        self.top += 14.0;
    }

    fn sized(&mut self, (x, y): (f64, f64), size: f64, color: &str, more: &str, text: &str) {
        let text = escaped(text);
        let _never = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{color}\"{more}>{text}</text>"
        );
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, color: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.sized((x, y), TEXT, color, anchor, text);
    }

    /// A text that stands on its side, read from below.
    pub(super) fn label(&mut self, (x, y): (f64, f64), text: &str) {
        let more = format!(" text-anchor=\"middle\" transform=\"rotate(-90 {x:.1} {y:.1})\"");
        self.sized((x, y), TEXT, SOFT, &more, text);
    }

    pub(super) fn line(&mut self, a: (f64, f64), b: (f64, f64), color: &str, wide: f64, dash: &str) {
        self.path(&[a, b], color, wide, dash);
    }

    /// A line through points.
    pub(super) fn path(&mut self, points: &[(f64, f64)], color: &str, wide: f64, dash: &str) {
        let at: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dash = if dash == "none" { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        let _never = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{wide}\"{dash}/>",
            at.join(" ")
        );
    }

    /// An area within points.
    pub(super) fn area(&mut self, points: &[(f64, f64)], color: &str, opacity: f64) {
        let at: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _never =
            writeln!(self.body, "<polygon points=\"{}\" fill=\"{color}\" fill-opacity=\"{opacity}\"/>", at.join(" "));
    }

    pub(super) fn rect(&mut self, (x, y): (f64, f64), (wide, high): (f64, f64), color: &str, opacity: f64) {
        let _never = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{color}\" fill-opacity=\"{opacity}\"/>",
            wide.max(0.0),
            high.max(0.0)
        );
    }

    /// A series' mark; one that is not `full` is hollow.
    pub(super) fn mark(&mut self, series: &Series, (x, y): (f64, f64), r: f64, full: bool) {
        let color = series.color();
        let fill = if full { color } else { PAPER };
        let style = format!("fill=\"{fill}\" stroke=\"{color}\" stroke-width=\"1.4\"");
        let shape = |points: &[(f64, f64)]| {
            let at: Vec<String> =
                points.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx * r, y + dy * r)).collect();
            format!("<polygon points=\"{}\" {style}/>", at.join(" "))
        };
        let mark = match series.at % 6 {
            0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" {style}/>"),
            1 => shape(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            2 => shape(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
            3 => shape(&[(0.0, -1.3), (1.1, 0.0), (0.0, 1.3), (-1.1, 0.0)]),
            4 => shape(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)]),
            _ => shape(&[(-1.2, -0.4), (1.2, -0.4), (1.2, 0.4), (-1.2, 0.4)]),
        };
        self.body.push_str(&mark);
        self.body.push('\n');
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), r: f64, color: &str) {
        let _never = writeln!(self.body, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" fill=\"{color}\"/>");
    }

    /// A cross for what does not count.
    pub(super) fn cross(&mut self, (x, y): (f64, f64), r: f64) {
        self.line((x - r, y - r), (x + r, y + r), BAD, 2.0, "none");
        self.line((x - r, y + r), (x + r, y - r), BAD, 2.0, "none");
    }

    /// One more sentence of the note.
    pub(super) fn add_note(&mut self, sentence: &str) {
        self.note = format!("{} {sentence}", self.note);
    }

    /// The file: the drawing ends at `bottom`, under which the note stands.
    pub(super) fn finish(mut self, bottom: f64) -> String {
        let mut y = bottom + 8.0;
        for line in wrapped(&self.note.clone(), WIDTH - 2.0 * EDGE, TEXT) {
            y += 16.0;
            self.sized((EDGE, y), TEXT, SOFT, "", &line);
        }
        let high = y + EDGE;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{high:.0}\" viewBox=\"0 0 {WIDTH} {high:.0}\" role=\"img\" \
             font-family=\"system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\">\n\
             <title>{}</title>\n<rect width=\"{WIDTH}\" height=\"{high:.0}\" fill=\"{PAPER}\"/>\n{}</svg>\n",
            escaped(&self.title),
            self.body
        )
    }
}
