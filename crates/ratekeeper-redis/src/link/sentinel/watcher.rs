//! A task for each sentinel that listens to it, and asks it every second what it may not have said.
//!
//! It belongs to one runtime, like the connection that it looks after, and holds nothing: the node may be dropped while it
//! runs, which ends it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use redis::Client;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use super::super::Options;
use super::super::node::{Node, open};
use super::RedisError;
use super::news::{self, CHANNELS, News};

/// Between two questions: what was published while nobody listened is known so soon.
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(1);

/// The pause after a sentinel could not be reached, or was lost.
const PAUSE: Duration = Duration::from_millis(500);

/// Listens to one of the sentinels, in a task of this runtime.
pub(super) fn spawn(node: &Arc<Node>, index: usize) -> AbortHandle {
    let watcher = Watcher { node: Arc::downgrade(node), runtime: Handle::current().id(), index };
    tokio::spawn(watcher.run()).abort_handle()
}

struct Watcher {
    node: Weak<Node>,
    runtime: Id,
    index: usize,
}

/// A connection that is published to.
struct Subscription {
    sink: PubSubSink,
    published: PubSubStream,
}

impl Watcher {
    async fn run(self) {
        let mut is_lost = false;
        while let Some(error) = self.listen(&mut is_lost).await {
            if !std::mem::replace(&mut is_lost, true) {
                tracing::warn!(%error, "cannot listen to a sentinel; trying on");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Listens until the sentinel is lost, and tells why; none if the node is gone.
    async fn listen(&self, is_lost: &mut bool) -> Option<RedisError> {
        let (sentinel, options) = {
            let node = self.node.upgrade()?;
            (node.sentinels()?.addresses.get(self.index)?.clone(), *node.options())
        };
        let place = sentinel.addr().to_string();
        let session = async {
            let mut subscription = subscribe(&Client::open(sentinel.clone())?, &options).await?;
            let mut asked = open(sentinel, &options).await?;
            if std::mem::take(is_lost) {
                tracing::info!(sentinel = %place, "listening again");
            }
            loop {
                // At first as well: it may have been published before anybody listened.
                let Some(node) = self.node.upgrade() else { return Ok(()) };
                let Some(sentinels) = node.sentinels() else { return Ok(()) };
                sentinels.ask(&mut asked, &options).await?;
                self.leave_old_master(&node);
                drop(node);
                if self.hear(&mut subscription, &options).await?.is_none() {
                    return Ok(());
                }
            }
        };
        let ended: Result<(), RedisError> = session.await;
        ended.err().map(|error| error.at(&place))
    }

    /// Listens until it is time to ask; none if the node is gone.
    async fn hear(
        &self,
        subscription: &mut Subscription,
        options: &Options,
    ) -> Result<Option<()>, RedisError> {
        let until = tokio::time::Instant::now() + BETWEEN_QUESTIONS;
        while let Ok(published) = tokio::time::timeout_at(until, subscription.published.next()).await {
            let message = published.ok_or_else(|| RedisError::protocol("it has ended the subscription"))?;
            let Some(node) = self.node.upgrade() else { return Ok(None) };
            let Some(sentinels) = node.sentinels() else { return Ok(None) };
            let text = message.get_payload::<String>().unwrap_or_default();
            match news::read(message.get_channel_name(), &text, &sentinels.master) {
                Some(News::Promised(server)) => sentinels.promise(server),
                Some(News::Aborted) => sentinels.known.lock().break_promise(),
                Some(News::Changed) => return Ok(Some(())),
                None => continue,
            }
            self.leave_old_master(&node);
        }
        // One that says nothing may be gone without a word.
        let pong = tokio::time::timeout(options.connect_timeout, subscription.sink.ping::<redis::Value>());
        pong.await.map_err(|_| RedisError::timeout(options.connect_timeout))??;
        Ok(Some(()))
    }

    fn leave_old_master(&self, node: &Node) {
        if node.sentinels().is_some_and(|sentinels| !sentinels.is_at_master(self.runtime)) {
            node.leave(self.runtime);
        }
    }
}

async fn subscribe(client: &Client, options: &Options) -> Result<Subscription, RedisError> {
    let attempt = async {
        let (mut sink, published) = client.get_async_pubsub().await?.split();
        sink.subscribe(&CHANNELS).await?;
        Ok::<_, RedisError>(Subscription { sink, published })
    };
    let outcome = tokio::time::timeout(options.connect_timeout, attempt).await;
    outcome.unwrap_or_else(|_| Err(RedisError::timeout(options.connect_timeout)))
}
