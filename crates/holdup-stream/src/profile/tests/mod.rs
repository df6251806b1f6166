//! Profiles as texts: what is read, what is refused and where, what the server does.

mod reading;
mod refusing;
mod running;

use super::{Profile, ProfileErrors};

const RICH: &str = include_str!("rich.xml");

fn environment(name: &str) -> Option<String> {
    let held = match name {
        "h" => "peer-1",
        "h2" => "Peer-2",
        "n" => "3",
        "big" => "64k",
        "dir" => "/srv/Files",
        "opts" => "count=2 size=$big",
        "time" => "2.5s",
        "empty" => " ",
        "bad" => "many",
        "lines" => "\n\nsize=x",
        _ => return None,
    };
    Some(held.to_owned())
}

fn read(text: &str) -> Result<Profile, ProfileErrors> {
    Profile::read("p.xml", text.as_bytes(), &environment)
}

/// One group of one strand whose first transaction connects; `inside` begins on line 3.
fn within(inside: &str) -> String {
    format!(
        "<profile><group nthreads=\"1\"><transaction>\n<flowop type=\"connect\" options=\"remotehost=$h protocol=tcp\"/>\
         </transaction><transaction>\n{inside}\n</transaction></group></profile>\n"
    )
}

fn flowop(options: &str) -> String {
    within(&format!("<flowop type=\"write\" options=\"{options}\"/>"))
}

/// All messages without the file's name.
fn messages(text: &str) -> String {
    read(text).err().map_or_else(|| "it was read".to_owned(), |e| e.to_string().replace("p.xml", ""))
}
