//! The protocol of kvlitmus for a cache in Rust: JSON lines on stdin and stdout.  Copy it, and json.rs.
//! What the cache prints must go to stderr: stdout is the suite's.

use std::io::{self, BufRead, Write};

use crate::json::Json::{self, *};

/// The version of what is spoken here.
const PROTOCOL: i64 = 1;

/// A cache has the ports' methods by their names (kvlitmus init-adapter --list).
pub trait Cache {
    /// One call: the answer, or what was raised, such as `ValueError: n must be whole pages`.
    fn call(&mut self, name: &str, args: &Json, kwargs: &Json) -> Result<Json, String>;
}

fn say(message: Json) {
    let mut line = String::new();
    message.write(&mut line);
    line.push('\n');
    let mut out = io::stdout().lock();
    if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0); // nobody listens any more
    }
}

fn hear() -> Json {
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(1..) => Json::read(line.trim_end()),
        _ => std::process::exit(0),
    }
}

/// Calls back what the suite has lent: its storage (exists, get, put), or the host memory of a prefetch's plan.
#[allow(dead_code)]
pub fn ask(name: &str, args: Vec<Json>) -> Result<Json, String> {
    say(Json::object([("ask", Text(name.to_string())), ("args", Array(args))]));
    let told = hear();
    match told["raised"].text() {
        Some(why) => Err(why.to_string()),
        None => Ok(told["told"].clone()),
    }
}

/// What came of a call: `answer`, or `raised`.
fn outcome(cache: &mut dyn Cache, name: &str, args: &Json, kwargs: &Json) -> (String, Json) {
    match cache.call(name, args, kwargs) {
        Ok(answer) => ("answer".to_string(), answer),
        Err(why) => ("raised".to_string(), Text(why)),
    }
}

/// What these looks show after a call, or of a fresh cache.
fn looks(cache: &mut dyn Cache, names: &Json) -> Json {
    let seen = names.array().iter().filter_map(Json::text).map(|look| {
        let seen = outcome(cache, look, &Array(vec![]), &Null);
        (look.to_string(), if seen.0 == "answer" { seen.1 } else { Object(vec![seen]) })
    });
    Object(seen.collect())
}

/// Serves until the suite hangs up.  `hello`: ports, profile, version and so on; `make`: a fresh cache of a
/// configuration, or why there is none.
pub fn serve(hello: Json, make: impl Fn(&Json) -> Result<Box<dyn Cache>, String>) {
    let mut cache: Option<Box<dyn Cache>> = None;
    loop {
        let message = hear();
        if message["hello"] != Null {
            let theirs = message["hello"]["protocol"].number();
            if theirs == PROTOCOL {
                say(Json::object([("hello", hello.clone()), ("protocol", Number(PROTOCOL))]));
            } else {
                let why = format!("it speaks protocol {PROTOCOL}, and was asked for {theirs}");
                say(Json::object([("refused", Text(why))]));
            }
        } else if message["make"] != Null {
            match make(&message["make"]) {
                Ok(mut made) => {
                    say(Json::object([("made", Flag(true)), ("looks", looks(made.as_mut(), &message["looks"]))]));
                    cache = Some(made);
                }
                Err(why) => say(Json::object([("unsupported", Text(why))])),
            }
        } else if let Some(cache) = &mut cache {
            let name = message["call"].text().unwrap_or_default();
            let came = outcome(cache.as_mut(), name, &message["args"], &message["kwargs"]);
            let looks = looks(cache.as_mut(), &message["looks"]);
            say(Object(vec![came, ("looks".to_string(), looks)]));
        }
    }
}
