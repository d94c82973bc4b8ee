//! Distributed locks by the Redlock algorithm.
