//! Where one frame of the Redis protocol (RESP2 and RESP3) ends and the next begins.

/// Takes the first whole frame out of `buffer`; `None` as long as it is not complete.
pub fn take_frame(buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = frame_len(buffer)?;
    let rest = buffer.split_off(length);
    Some(std::mem::replace(buffer, rest))
}

/// Whether the frame is a push, which answers no request.
pub fn is_push(frame: &[u8]) -> bool {
    frame.first() == Some(&b'>')
}

/// The words of a request: an array of bulk strings.
pub fn words(request: &[u8]) -> Vec<&[u8]> {
    let mut words = Vec::new();
    let mut rest = line_end(request).map_or(&[][..], |end| &request[end..]);
    while let (Some(start), Some(end)) = (line_end(rest), frame_len(rest)) {
        words.push(rest.get(start..end - 2).unwrap_or_default());
        rest = &rest[end..];
    }
    words
}

/// The length of the first frame of `bytes`, if it is all there.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    let line = line_end(bytes)?;
    let count = || {
        std::str::from_utf8(&bytes[1..line - 2])
            .ok()?
            .parse::<i64>()
            .ok()
    };
    match bytes[0] {
        // Bulk strings, errors and verbatim strings; a negative length is a null.
        b'$' | b'!' | b'=' => match count() {
            Some(length @ 0..) => {
                Some(line + length as usize + 2).filter(|end| *end <= bytes.len())
            }
            _ => Some(line),
        },
        b'*' | b'~' | b'>' => frames_len(bytes, line, count().unwrap_or(0)),
        b'%' => frames_len(bytes, line, 2 * count().unwrap_or(0)),
        // Attributes, then the value that they belong to.
        b'|' => frames_len(bytes, line, 2 * count().unwrap_or(0) + 1),
        // Simple strings and errors, numbers, booleans, nulls; inline commands.
        _ => Some(line),
    }
}

/// Where the `count` frames that begin at `start` end; none if `count` is negative (a null).
fn frames_len(bytes: &[u8], start: usize, count: i64) -> Option<usize> {
    (0..count).try_fold(start, |end, _| Some(end + frame_len(&bytes[end..])?))
}

/// Where the first line ends, its line break included.
fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(2)
        .position(|pair| pair == b"\r\n")
        .map(|position| position + 2)
}
