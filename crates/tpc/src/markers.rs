//! Performance markers: what the client of a copy reads while it runs, as GridFTP had it. Pure; that one
//! comes at least every five seconds is for the caller. Clients give up after 30 s without (FTS) or less.

use std::fmt;
use std::net::SocketAddr;

/// The longest reason behind `failure:`; the rest is cut. Clients show it to people.
const REASON_BYTES_MAX: usize = 1024;
/// The most bytes of a marker that are read.
const MARKER_BYTES_MAX: usize = 4096;

/// How far a copy is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marker {
    /// Seconds since 1970.
    pub timestamp: u64,
    /// Which stripe.
    pub stripe: u32,
    /// Bytes of that stripe so far.
    pub bytes: u64,
    /// How many stripes there are.
    pub stripes: u32,
    /// The other server, for those who look at the network.
    pub remote: Option<SocketAddr>,
}

/// How a copy ended: the last line of the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The file is there.
    Success,
    /// It is not, and why.
    Failure(String),
    /// Somebody ended it.
    Aborted(String),
}

/// A part of the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// How far it is.
    Marker(Marker),
    /// How it ended.
    Ending(Ending),
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Marker { timestamp, stripe, bytes, stripes, remote } = self;
        writeln!(f, "Perf Marker\n\tTimestamp: {timestamp}\n\tStripe Index: {stripe}")?;
        writeln!(f, "\tStripe Bytes Transferred: {bytes}\n\tTotal Stripe Count: {stripes}")?;
        if let Some(remote) = remote {
            writeln!(f, "\tRemoteConnections: tcp:{remote}")?;
        }
        writeln!(f, "End")
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Success => writeln!(f, "success: Created"),
            Ending::Failure(reason) => writeln!(f, "failure: {}", one_line(reason)),
            Ending::Aborted(reason) => writeln!(f, "aborted: {}", one_line(reason)),
        }
    }
}

/// The reason in one line: what stands behind a line end would be read as a line of its own.
fn one_line(reason: &str) -> String {
    let cut =
        reason.get(..reason.floor_char_boundary(reason.len().min(REASON_BYTES_MAX))).unwrap_or_default();
    cut.replace(|c: char| c.is_control(), " ")
}

/// Reads an answer that is complete, as a client would.
///
/// # Errors
/// The line that is none of an answer.
pub fn parse(text: &str) -> Result<Vec<Part>, String> {
    let mut lines = text.lines();
    let mut parts = Vec::new();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let part = match line.split_once(':') {
            _ if line == "Perf Marker" => {
                let inner = lines.by_ref().map(str::trim).take_while(|line| *line != "End");
                Part::Marker(marker(inner).ok_or_else(|| line.to_owned())?)
            }
            Some(("success", _)) => Part::Ending(Ending::Success),
            Some(("failure", reason)) => Part::Ending(Ending::Failure(reason.trim().to_owned())),
            Some(("aborted", reason)) => Part::Ending(Ending::Aborted(reason.trim().to_owned())),
            _ => return Err(line.to_owned()),
        };
        parts.push(part);
    }
    Ok(parts)
}

fn marker<'t>(lines: impl Iterator<Item = &'t str>) -> Option<Marker> {
    let mut marker = Marker { timestamp: 0, stripe: 0, bytes: 0, stripes: 1, remote: None };
    let mut length = 0;
    for line in lines {
        length += line.len();
        let (name, value) = line.split_once(':').filter(|_| length <= MARKER_BYTES_MAX)?;
        let value = value.trim();
        match name {
            "Timestamp" => marker.timestamp = value.parse().ok()?,
            "Stripe Index" => marker.stripe = value.parse().ok()?,
            "Stripe Bytes Transferred" => marker.bytes = value.parse().ok()?,
            "Total Stripe Count" => marker.stripes = value.parse().ok()?,
            "RemoteConnections" => {
                marker.remote = value.split(',').next()?.strip_prefix("tcp:")?.parse().ok();
            }
            // Others have more lines.
            _ => {}
        }
    }
    Some(marker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_clients_read() {
        let mut marker =
            Marker { timestamp: 1_537_788_010, stripe: 0, bytes: 238_745, stripes: 1, remote: None };
        let text = "Perf Marker\n\tTimestamp: 1537788010\n\tStripe Index: 0\n\
                    \tStripe Bytes Transferred: 238745\n\tTotal Stripe Count: 1\nEnd\n";
        assert_eq!(marker.to_string(), text);
        marker.remote = Some("[2001:db8::1]:443".parse().unwrap());
        assert!(marker.to_string().contains("\tRemoteConnections: tcp:[2001:db8::1]:443\nEnd\n"));
        let whole = format!("{marker}{}", Ending::Success);
        assert!(whole.ends_with("End\nsuccess: Created\n"));
        assert_eq!(parse(&whole).unwrap(), [Part::Marker(marker), Part::Ending(Ending::Success)]);
    }

    #[test]
    fn a_reason_is_one_line() {
        let evil = Ending::Failure("no\r\nsuccess: Created\u{0}".to_owned());
        assert_eq!(evil.to_string(), "failure: no  success: Created \n");
        let ending = Ending::Aborted("the client is gone".to_owned());
        assert_eq!(parse(&ending.to_string()).unwrap(), [Part::Ending(ending)]);
        assert_eq!(
            Ending::Failure("ä".repeat(2000)).to_string().len(),
            "failure: \n".len() + REASON_BYTES_MAX
        );
    }

    #[test]
    fn what_is_no_answer_is_said() {
        assert_eq!(parse("Perf Marker\nTimestamp: x\nEnd\n"), Err("Perf Marker".to_owned()));
        assert_eq!(parse("hello"), Err("hello".to_owned()));
        let others = "Perf Marker\nTimestamp: 5\nStripe Index: 0\nStripe Bytes Transferred: 7\n\
                      State: running\nTotal Stripe Count: 1\n\
                      RemoteConnections: tcp:129.93.3.4:1234,tcp:[::1]:5\nEnd\nfailure: x\n";
        let parts = parse(others).unwrap();
        let remote = Some("129.93.3.4:1234".parse().unwrap());
        let marker = Marker { timestamp: 5, stripe: 0, bytes: 7, stripes: 1, remote };
        assert_eq!(parts, [Part::Marker(marker), Part::Ending(Ending::Failure("x".to_owned()))]);
    }
}
