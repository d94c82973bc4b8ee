//! What this process uses.

use std::alloc::System;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

pub(crate) struct Usage {
    /// Bytes that are allocated.
    pub(crate) heap: usize,
    /// CPU time so far.
    pub(crate) cpu: Duration,
}

impl Usage {
    pub(crate) fn now() -> Self {
        let heap = ALLOCATOR.stats();
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            heap: heap.bytes_allocated - heap.bytes_deallocated,
            cpu: Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32),
        }
    }
}
