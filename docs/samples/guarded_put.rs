//! A service that refuses a write when a later owner of the lock has written: with
//! 412, Precondition Failed.

use std::io;
use std::sync::Mutex;

use tiny_http::{Method, Request, Response, Server};

/// The header that carries the fencing token.
pub const HEADER: &str = "X-Fencing-Token";

/// What the service keeps: the value, and the highest token that has written it.
#[derive(Default)]
pub struct Kept {
    pub value: String,
    pub highest: u64,
}

/// Serves until the server is told to [unblock](Server::unblock).
pub fn serve(server: &Server, kept: &Mutex<Kept>) -> io::Result<()> {
    while let Ok(mut request) = server.recv() {
        let status = match request.method() {
            Method::Put => put(&mut request, kept),
            _ => 405,
        };
        request.respond(Response::empty(status))?;
    }
    Ok(())
}

fn put(request: &mut Request, kept: &Mutex<Kept>) -> u16 {
    let Some(token) = fencing_token(request) else {
        return 400;
    };
    let mut value = String::new();
    if request.as_reader().read_to_string(&mut value).is_err() {
        return 400;
    }
    // Compared and written in one step: nobody comes between.
    let mut kept = kept.lock().expect("nobody panics here");
    if token < kept.highest {
        return 412;
    }
    *kept = Kept {
        value,
        highest: token,
    };
    204
}

fn fencing_token(request: &Request) -> Option<u64> {
    let mut headers = request.headers().iter();
    let header = headers.find(|header| header.field.equiv(HEADER))?;
    header.value.as_str().parse().ok()
}
