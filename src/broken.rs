//! Rules of safety that can be broken on purpose, to see that it is noticed
//! (`make chaos BREAK=…`).
//!
//! It is compiled with `--cfg redquorum_break` alone, which no feature sets.

use std::sync::OnceLock;

/// Whether `REDQUORUM_BREAK` names this rule.
pub(crate) fn is_broken(rule: &str) -> bool {
    static BROKEN: OnceLock<Option<String>> = OnceLock::new();
    let broken = BROKEN.get_or_init(|| std::env::var("REDQUORUM_BREAK").ok());
    broken.as_deref() == Some(rule)
}
