//! Futures that are dropped at an await of the seed's choice.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Drops the future when it has been polled this often and is not ready; then
/// there is no result.
pub(crate) struct Cancelled<F> {
    inner: Option<Pin<Box<F>>>,
    polls: u64,
}

impl<F: Future> Cancelled<F> {
    pub(crate) fn after(polls: u64, inner: F) -> Self {
        Self {
            inner: Some(Box::pin(inner)),
            polls,
        }
    }
}

impl<F: Future> Future for Cancelled<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(output) = inner.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        self.polls = self.polls.saturating_sub(1);
        if self.polls > 0 {
            return Poll::Pending;
        }
        self.inner = None;
        Poll::Ready(None)
    }
}
