//! A task for each sentinel that listens to it, and asks it every second for what it may not have published.
//!
//! It belongs to one runtime, like the connection that it looks after, and keeps nothing alive: the sentinels may be dropped
//! while it runs, which ends it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSub, PubSubSink, PubSubStream};
use redis::{Client, RedisResult};
use tokio::runtime::{Handle, Id};

use super::super::connect::open;
use super::super::options::LinkOptions;
use super::event::{self, CHANNELS, SentinelEvent};
use super::sentinels::Sentinels;
use crate::error::RedisError;

/// The time between two questions: no longer than that goes a change unnoticed that was published while no one listened.
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(1);

/// The pause after a sentinel could not be reached, or its connection was lost.
const PAUSE: Duration = Duration::from_millis(500);

/// A node that is connected to the master which sentinels watch.
pub(in super::super) trait FollowsMaster: Send + Sync {
    /// Leaves the server that a runtime is connected to, so that the next command connects to the master of now. What is
    /// under way on the old connection is still answered.
    fn leave(&self, runtime: Id);
}

/// Listens to every sentinel from this runtime, until it ends or the sentinels are dropped, and has `follower` leave a
/// server that is not the master any more. Does nothing if this runtime listens already.
pub(in super::super) fn watch(
    sentinels: &Arc<Sentinels>,
    follower: &Weak<dyn FollowsMaster>,
    options: LinkOptions,
) {
    if sentinels.is_watched() {
        return;
    }
    let runtime = Handle::current().id();
    sentinels.keep_watchers((0..sentinels.addresses.len()).map(|index| {
        let (sentinels, follower) = (Arc::downgrade(sentinels), Weak::clone(follower));
        let watcher = SentinelWatcher { sentinels, follower, runtime, index, options };
        tokio::spawn(watcher.run()).abort_handle()
    }));
}

struct SentinelWatcher {
    sentinels: Weak<Sentinels>,
    follower: Weak<dyn FollowsMaster>,
    runtime: Id,
    /// Which of the sentinels it listens to.
    index: usize,
    options: LinkOptions,
}

/// A connection on which a sentinel publishes.
struct Subscription {
    sink: PubSubSink,
    published: PubSubStream,
}

impl SentinelWatcher {
    async fn run(self) {
        let mut is_lost = false;
        while let Some(error) = self.listen(&mut is_lost).await {
            if !std::mem::replace(&mut is_lost, true) {
                tracing::warn!(%error, "cannot listen to a sentinel: trying again");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Listens until the connection to the sentinel is lost, and returns why; none if the sentinels are dropped.
    async fn listen(&self, is_lost: &mut bool) -> Option<RedisError> {
        let sentinel = self.sentinels.upgrade()?.addresses.get(self.index)?.clone();
        let address = sentinel.addr().to_string();
        let session = async {
            let mut subscription = subscribe(&Client::open(sentinel.clone())?, &self.options).await?;
            let mut asked = open(sentinel, &self.options).await?;
            if std::mem::take(is_lost) {
                tracing::info!(sentinel = %address, "listening to the sentinel again");
            }
            loop {
                // At first as well: the change may have been published before anybody listened.
                let Some(sentinels) = self.sentinels.upgrade() else { return Ok(()) };
                sentinels.ask(&mut asked, &self.options).await?;
                self.leave_old_master(&sentinels);
                drop(sentinels);
                if self.hear(&mut subscription).await?.is_none() {
                    return Ok(());
                }
            }
        };
        let ended: Result<(), RedisError> = session.await;
        ended.err().map(|error| error.at(&address))
    }

    /// Listens until it is time to ask; none if the sentinels are dropped.
    async fn hear(&self, subscription: &mut Subscription) -> Result<Option<()>, RedisError> {
        let until = tokio::time::Instant::now() + BETWEEN_QUESTIONS;
        while let Ok(published) = tokio::time::timeout_at(until, subscription.published.next()).await {
            let message = published.ok_or_else(RedisError::subscription_ended)?;
            let Some(sentinels) = self.sentinels.upgrade() else { return Ok(None) };
            let text = message.get_payload::<String>().unwrap_or_default();
            match event::read(message.get_channel_name(), &text, sentinels.master()) {
                Some(SentinelEvent::Promoting(server)) => sentinels.promote(server),
                Some(SentinelEvent::Aborted) => sentinels.abort_promotion(),
                Some(SentinelEvent::Changed) => return Ok(Some(())),
                None => continue,
            }
            self.leave_old_master(&sentinels);
        }
        // A sentinel that publishes nothing may be gone without closing the connection.
        let patience = self.options.connect_timeout;
        let pong = tokio::time::timeout(patience, subscription.sink.ping::<redis::Value>());
        pong.await.map_err(|_| RedisError::timeout(patience))??;
        Ok(Some(()))
    }

    fn leave_old_master(&self, sentinels: &Sentinels) {
        if !sentinels.is_at_master(self.runtime)
            && let Some(follower) = self.follower.upgrade()
        {
            follower.leave(self.runtime);
        }
    }
}

async fn subscribe(client: &Client, options: &LinkOptions) -> Result<Subscription, RedisError> {
    let attempt = async {
        let (mut sink, published) = reach(client).await?.split();
        sink.subscribe(&CHANNELS).await?;
        Ok::<_, RedisError>(Subscription { sink, published })
    };
    let outcome = tokio::time::timeout(options.connect_timeout, attempt).await;
    outcome.unwrap_or_else(|_| Err(RedisError::timeout(options.connect_timeout)))
}

/// Connects, in a test perhaps to a sentinel that is simulated.
async fn reach(client: &Client) -> RedisResult<PubSub> {
    #[cfg(test)]
    if let Some(stream) = super::super::simulated::dial(client.get_connection_info()).await {
        return PubSub::new(client.get_connection_info().redis_settings(), stream?).await;
    }
    client.get_async_pubsub().await
}
