//! redquorum beside the floor (the redis crate alone) and beside other libraries: a package of its
//! own, so that neither its users nor `cargo test` compile these.
//!
//! `make bench` runs all of it. This library is what the programs share:
//!
//! | file | what it has |
//! |---|---|
//! | `turns.rs` | who is measured when, and what comes of it |
//! | `panics.rs` | what a subject that panics said |
//! | `figure.rs` | figures, and how they are formed from turns |
//! | `record.rs` | the file of figures, and its plots |
//! | `plot.rs` | figures as bars |

pub mod figure;
pub mod panics;
pub mod plot;
pub mod record;
pub mod turns;
