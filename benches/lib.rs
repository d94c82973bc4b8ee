//! redquorum beside the floor (the redis crate alone) and beside other libraries: a package of its
//! own, so that neither its users nor `cargo test` compile these.
//!
//! `make bench` runs all of it.
