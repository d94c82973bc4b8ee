//! Requests and replies as they go over the wire.

use std::fmt::Write;

use super::support::resp;

/// Takes the next whole request out of what was read.
pub(crate) fn take_request(buffer: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
    let frame = resp::take_frame(buffer)?;
    let words = resp::words(&frame);
    Some(words.into_iter().map(<[u8]>::to_vec).collect())
}

/// What a server replies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Okay,
    Simple(&'static str),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Nil,
    Text(String),
    Map(Vec<(&'static str, Reply)>),
    Array(Vec<Reply>),
}

impl Reply {
    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    pub(crate) fn bulk(text: &str) -> Self {
        Self::Bulk(text.as_bytes().to_vec())
    }

    /// As it goes over the wire, in RESP3 or RESP2.
    pub(crate) fn encode(&self, resp3: bool) -> Vec<u8> {
        let mut wire = Vec::with_capacity(32);
        self.write(&mut wire, resp3);
        wire
    }

    fn write(&self, wire: &mut Vec<u8>, resp3: bool) {
        match self {
            Self::Okay => line(wire, format_args!("+OK")),
            Self::Simple(text) => line(wire, format_args!("+{text}")),
            Self::Error(text) => line(wire, format_args!("-{text}")),
            Self::Int(number) => line(wire, format_args!(":{number}")),
            Self::Nil if resp3 => line(wire, format_args!("_")),
            Self::Nil => line(wire, format_args!("$-1")),
            Self::Bulk(bytes) => bulk(wire, bytes),
            Self::Text(text) if resp3 => {
                line(wire, format_args!("={}", text.len() + 4));
                line(wire, format_args!("txt:{text}"));
            }
            Self::Text(text) => bulk(wire, text.as_bytes()),
            Self::Map(pairs) => {
                match resp3 {
                    true => line(wire, format_args!("%{}", pairs.len())),
                    false => line(wire, format_args!("*{}", 2 * pairs.len())),
                }
                for (name, value) in pairs {
                    bulk(wire, name.as_bytes());
                    value.write(wire, resp3);
                }
            }
            Self::Array(items) => {
                line(wire, format_args!("*{}", items.len()));
                for item in items {
                    item.write(wire, resp3);
                }
            }
        }
    }
}

/// The push that tells of a change of a key.
pub(crate) fn invalidation(key: &[u8]) -> Vec<u8> {
    let mut wire = b">2\r\n$10\r\ninvalidate\r\n*1\r\n".to_vec();
    bulk(&mut wire, key);
    wire
}

fn bulk(wire: &mut Vec<u8>, bytes: &[u8]) {
    line(wire, format_args!("${}", bytes.len()));
    wire.extend_from_slice(bytes);
    wire.extend_from_slice(b"\r\n");
}

fn line(wire: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let mut line = String::new();
    write!(line, "{text}\r\n").expect("a string takes it");
    wire.extend_from_slice(line.as_bytes());
}
