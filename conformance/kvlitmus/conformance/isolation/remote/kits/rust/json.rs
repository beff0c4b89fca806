//! JSON, as little of it as the protocol needs.  If your project has serde_json, use its `Value` instead.

use std::ops::Index;

/// A value.  What is missing in one is null.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Flag(bool),
    Number(i64),
    Real(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

use Json::*;

impl Json {
    pub fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
        Object(fields.into_iter().map(|(name, one)| (name.to_string(), one)).collect())
    }

    pub fn numbers(all: impl IntoIterator<Item = i64>) -> Json {
        Array(all.into_iter().map(Number).collect())
    }

    pub fn number(&self) -> i64 {
        if let Number(one) = self { *one } else { 0 }
    }

    pub fn text(&self) -> Option<&str> {
        if let Text(one) = self { Some(one) } else { None }
    }

    pub fn array(&self) -> &[Json] {
        if let Array(all) = self { all } else { &[] }
    }

    pub fn list(&self) -> Vec<i64> {
        self.array().iter().map(Json::number).collect()
    }

    pub fn write(&self, to: &mut String) {
        match self {
            Null => to.push_str("null"),
            Flag(one) => to.push_str(if *one { "true" } else { "false" }),
            Number(one) => to.push_str(&one.to_string()),
            Real(one) => to.push_str(&one.to_string()),
            Text(one) => quote(one, to),
            Array(all) => {
                to.push('[');
                for (at, one) in all.iter().enumerate() {
                    to.push_str(if at > 0 { "," } else { "" });
                    one.write(to);
                }
                to.push(']');
            }
            Object(all) => {
                to.push('{');
                for (at, (name, one)) in all.iter().enumerate() {
                    to.push_str(if at > 0 { "," } else { "" });
                    quote(name, to);
                    to.push(':');
                    one.write(to);
                }
                to.push('}');
            }
        }
    }

    /// Reads what the suite says: valid JSON, without spaces, with escapes for control characters alone.
    pub fn read(text: &str) -> Json {
        value(&mut text.chars().peekable())
    }
}

impl Index<usize> for Json {
    type Output = Json;

    fn index(&self, at: usize) -> &Json {
        self.array().get(at).unwrap_or(&Null)
    }
}

impl Index<&str> for Json {
    type Output = Json;

    fn index(&self, name: &str) -> &Json {
        let Object(all) = self else { return &Null };
        all.iter().find(|(key, _)| key == name).map_or(&Null, |(_, one)| one)
    }
}

fn quote(text: &str, to: &mut String) {
    to.push('"');
    for one in text.chars() {
        match one {
            '"' | '\\' | '\0'..='\x1f' => to.push_str(&format!("\\u{:04x}", one as u32)),
            _ => to.push(one),
        }
    }
    to.push('"');
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn value(at: &mut Chars) -> Json {
    match at.peek().copied() {
        Some('[') => {
            let mut all = vec![];
            while !matches!(at.next(), Some(']') | None) {
                if at.peek() != Some(&']') {
                    all.push(value(at));
                }
            }
            Array(all)
        }
        Some('{') => {
            let mut all = vec![];
            while !matches!(at.next(), Some('}') | None) {
                if at.peek() != Some(&'}') {
                    let name = string(at);
                    at.next();
                    all.push((name, value(at)));
                }
            }
            Object(all)
        }
        Some('"') => Text(string(at)),
        _ => {
            let mut word = String::new();
            while let Some(one) = at.next_if(|one| !",]}".contains(*one)) {
                word.push(one);
            }
            match (word.parse(), word.parse()) {
                _ if word == "true" || word == "false" => Flag(word == "true"),
                (Ok(whole), _) => Number(whole),
                (_, Ok(real)) => Real(real),
                _ => Null,
            }
        }
    }
}

fn string(at: &mut Chars) -> String {
    let mut text = String::new();
    at.next();
    while let Some(one) = at.next().filter(|one| *one != '"') {
        let escaped = if one == '\\' { at.next() } else { None };
        text.push(match escaped {
            None => one,
            Some('u') => {
                let code: String = at.take(4).collect();
                u32::from_str_radix(&code, 16).ok().and_then(char::from_u32).unwrap_or('\u{fffd}')
            }
            Some(name) => "nrtbf".find(name).map_or(name, |which| b"\n\r\t\x08\x0c"[which] as char),
        });
    }
    text
}
