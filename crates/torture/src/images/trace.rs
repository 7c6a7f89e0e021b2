//! What strace has written, as a sequence of beginnings and ends of calls.

use std::collections::BTreeMap;

/// Calls that are recorded.
pub const CALLS: &str = "openat,close,lseek,write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,\
sync_file_range,ftruncate,fallocate,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,msync";

/// A call, with its arguments as text.
#[derive(Clone, Debug)]
pub struct Call {
    pub name: String,
    pub arguments: Vec<String>,
    /// What it returned, as text; empty if it never did.
    pub result: String,
}

impl Call {
    /// Whether it never returned, since its process ended.
    pub fn is_unfinished(&self) -> bool {
        self.result.is_empty() || self.result.starts_with('?')
    }
}

/// The order of things.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The call with this number begins: from now on it may have any part of its effect.
    Begin(usize),
    /// It returns: its effect is complete, as far as it was promised.
    End(usize),
}

/// A recorded run.
#[derive(Default)]
pub struct Trace {
    pub calls: Vec<Call>,
    pub steps: Vec<Step>,
}

impl Trace {
    /// Reads what `strace -f -y -xx` wrote.
    pub fn parse(text: &str) -> Self {
        let mut trace = Trace::default();
        let mut open: BTreeMap<&str, (usize, String)> = BTreeMap::new();
        for line in text.lines() {
            let Some((thread, rest)) = line.split_once(' ') else { continue };
            let rest = rest.trim_start();
            if let Some(resumed) = rest.strip_prefix("<... ") {
                let Some((number, begun)) = open.remove(thread) else { continue };
                let tail = resumed.split_once(" resumed>").map_or("", |(_, tail)| tail);
                trace.finish(number, &format!("{begun}{tail}"));
                trace.steps.push(Step::End(number));
            } else if let Some((name, body)) = rest.split_once('(').filter(|(name, _)| is_name(name)) {
                let number = trace.calls.len();
                let call = Call { name: name.to_owned(), arguments: Vec::new(), result: String::new() };
                trace.calls.push(call);
                trace.steps.push(Step::Begin(number));
                if let Some(begun) = body.strip_suffix("<unfinished ...>") {
                    trace.calls[number].arguments = split(begun.trim_end());
                    open.insert(thread, (number, begun.trim_end().to_owned()));
                } else {
                    trace.finish(number, body);
                    trace.steps.push(Step::End(number));
                }
            }
        }
        trace
    }

    fn finish(&mut self, number: usize, body: &str) {
        // The last ") = ", since arguments hold strings in hexadecimal only.
        let Some(at) = body.rfind(" = ") else { return };
        let (arguments, result) = (body[..at].trim_end(), body[at + 3..].trim());
        let arguments = arguments.strip_suffix(')').unwrap_or(arguments);
        self.calls[number].arguments = split(arguments);
        self.calls[number].result = result.to_owned();
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Splits arguments at commas outside of brackets and strings.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut quoted, mut from) = (Vec::new(), 0i32, false, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => depth += 1,
            b']' | b'}' if !quoted => depth -= 1,
            b',' if !quoted && depth == 0 => {
                parts.push(text[from..at].trim().to_owned());
                from = at + 1;
            }
            _ => {}
        }
    }
    let last = text[from..].trim();
    if !last.is_empty() {
        parts.push(last.to_owned());
    }
    parts
}

/// Decodes all strings of `\xAB` within an argument, one after the other, as of a vector of buffers.
#[must_use]
pub fn bytes(argument: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(argument.len() / 4);
    for (number, part) in argument.split('"').enumerate() {
        if number % 2 == 1 {
            unescape(part, &mut bytes);
        }
    }
    bytes
}

fn unescape(text: &str, into: &mut Vec<u8>) {
    let text = text.as_bytes();
    let mut at = 0;
    while at < text.len() {
        if text[at] == b'\\' && text.get(at + 1) == Some(&b'x') && at + 3 < text.len() {
            into.push(digit(text[at + 2]) << 4 | digit(text[at + 3]));
            at += 4;
        } else {
            into.push(text[at]);
            at += 1;
        }
    }
}

fn digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        _ => 0,
    }
}

/// The number of a descriptor and the path that it stands for, from `7<path>`.
#[must_use]
pub fn descriptor(argument: &str) -> Option<(i64, String)> {
    let (number, rest) = argument.split_once('<')?;
    let path = rest.get(..rest.rfind('>')?)?;
    let mut bytes = Vec::new();
    unescape(path, &mut bytes);
    Some((number.trim().parse().unwrap_or(-1), String::from_utf8_lossy(&bytes).into_owned()))
}

/// A number argument.
#[must_use]
pub fn number(argument: &str) -> u64 {
    argument.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let text = "12  pwrite64(7<\\x2f\\x61>, \"\\x01\\xff\", 2, 4096 <unfinished ...>\n\
                    13  fsync(8<\\x2f\\x62>) = 0\n\
                    12  <... pwrite64 resumed>)             = 2\n\
                    13  pwritev(9<\\x2f\\x63>, [{iov_base=\"\\x41\", iov_len=1}, \
                    {iov_base=\"\\x42\", iov_len=1}], 2, 5) = 2\n\
                    12  +++ exited with 0 +++\n";
        let trace = Trace::parse(text);
        let steps =
            [Step::Begin(0), Step::Begin(1), Step::End(1), Step::End(0), Step::Begin(2), Step::End(2)];
        assert_eq!(trace.steps, steps);
        let write = &trace.calls[0];
        assert_eq!(descriptor(&write.arguments[0]), Some((7, "/a".to_owned())));
        assert_eq!((bytes(&write.arguments[1]), number(&write.arguments[3])), (vec![1, 255], 4096));
        assert_eq!(write.result, "2");
        assert_eq!(bytes(&trace.calls[2].arguments[1]), b"AB");
    }
}
