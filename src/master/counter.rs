//! The counter of a fenced lock on an in-process master: what the scripts do with
//! it, and its value, `count:generation`.

/// The least count that is too high.
const TOO_HIGH: u64 = 1 << 53;

/// What a counter says.
pub(super) struct Counter<'a> {
    count: u64,
    /// The generation of the server that wrote it.
    writer: Option<&'a str>,
}

impl<'a> Counter<'a> {
    pub(super) fn read(value: &'a str) -> Self {
        let digits = value.bytes().take_while(u8::is_ascii_digit).count();
        let (count, rest) = value.split_at(digits);
        match digits {
            0 => Self {
                count: 0,
                writer: None,
            },
            _ => Self {
                count: count.parse().unwrap_or(u64::MAX),
                writer: Some(rest.strip_prefix(':').unwrap_or(rest)),
            },
        }
    }

    pub(super) fn value(count: u64, generation: &str) -> String {
        format!("{count}:{generation}")
    }

    /// The next count, as `take_fenced.lua` has it: by the clock, unless the counter
    /// is this generation's. The error is a count that is too high.
    pub(super) fn next(before: Option<Self>, generation: &str, micros: u64) -> Result<u64, u64> {
        let next = before.as_ref().map_or(0, |before| before.count);
        let next = next.saturating_add(1);
        let count = match before {
            Some(before) if before.is_of(generation) => next,
            _ => next.max(micros),
        };
        match count < TOO_HIGH {
            true => Ok(count),
            false => Err(count),
        }
    }

    /// Whether `raise.lua` raises it to this count.
    pub(super) fn may_become(&self, count: u64, generation: &str) -> bool {
        self.is_of(generation) && self.count <= count
    }

    fn is_of(&self, generation: &str) -> bool {
        self.writer == Some(generation)
    }
}
