//! What a subject that panics said.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;

/// What comes of it; what it said as it panicked, if it did.
pub fn caught<T>(measurement: impl Future<Output = T>) -> impl Future<Output = Result<T, String>> {
    // In a box, so that the types of those who await it stay small enough for the compiler.
    let caught = AssertUnwindSafe(Box::pin(measurement)).catch_unwind();
    async move { caught.await.map_err(said) }
}

/// What was said in a panic.
pub fn said(panic: Box<dyn Any + Send>) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", words.unwrap_or("without words"))
}
