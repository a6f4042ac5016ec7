//! Asks nodes for the map of their cluster, until one is found that knows all of it.
//!
//! A node that was reset or forgotten runs alone and knows of no slots. One that is cut off from the others may know
//! of all of them, as they were. So the first answer is taken only if it is whole and its node says that the cluster
//! is well; otherwise all nodes are asked, and the best answer is taken.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::Value;

use super::node::Node;
use super::slot::SLOTS;
use super::topology::{self, SlotRange};
use crate::error::{RedisError, RedisErrorKind};

/// How many nodes are asked at once: one that is frozen must not keep the others from being asked, and a large cluster is
/// not to be asked as a whole each time.
const AT_ONCE: usize = 3;

/// A node to be asked.
pub(super) struct Candidate {
    pub(super) node: Arc<Node>,
    /// What to call a node that does not know its own name.
    pub(super) host: String,
    /// Its address, for errors.
    pub(super) address: String,
}

/// What the nodes that were asked have answered so far.
pub(super) struct Survey {
    patience: Duration,
    best: Option<ClusterView>,
    /// The addresses of nodes that answered and know of no slots.
    knowing_nothing: Vec<String>,
    last_error: Option<RedisError>,
}

/// The cluster as one of its nodes sees it.
pub(super) struct ClusterView {
    pub(super) ranges: Vec<SlotRange>,
    slots: usize,
    /// True if the node reaches most of the others, and sees all slots served that must be.
    is_well: bool,
    /// The number of changes of the map.
    epoch: u64,
}

impl ClusterView {
    /// Reads the replies to `CLUSTER SLOTS` and `CLUSTER INFO` of the node at `asked`. A user that may not ask for the second
    /// has to believe that the cluster is well.
    pub(super) fn read(slots: Value, info: Option<&Value>, asked: &str) -> Result<Self, RedisError> {
        let ranges = topology::read(slots, asked)?;
        let slots = ranges.iter().map(|range| range.last - range.first + 1).sum();
        let (is_well, epoch) = info.map_or((true, 0), state);
        Ok(ClusterView { ranges, slots, is_well, epoch })
    }

    fn is_whole(&self) -> bool {
        self.is_well && self.slots == SLOTS
    }

    fn worth(&self) -> (bool, usize, u64) {
        (self.is_well, self.slots, self.epoch)
    }
}

impl Survey {
    pub(super) fn new(patience: Duration) -> Self {
        Survey { patience, best: None, knowing_nothing: Vec::new(), last_error: None }
    }

    /// Asks these nodes until one knows the whole map, and returns whether one did. One round trip each.
    pub(super) async fn ask(&mut self, candidates: Vec<Candidate>) -> bool {
        let patience = self.patience;
        let mut rest = candidates.into_iter();
        let inquire = |candidate: Candidate| async move {
            let answer = tokio::time::timeout(patience, inquire(&candidate.node, &candidate.host)).await;
            let answer = answer.unwrap_or_else(|_| Err(RedisError::timeout(patience)));
            (candidate.address, answer)
        };
        let mut asked: FuturesUnordered<_> = rest.by_ref().take(AT_ONCE).map(inquire).collect();
        while let Some((address, answer)) = asked.next().await {
            match answer {
                Ok(view) if view.is_whole() => {
                    self.best = Some(view);
                    return true;
                }
                Ok(view) if view.slots == 0 => self.knowing_nothing.push(address),
                Ok(view) if self.best.as_ref().is_none_or(|best| best.worth() < view.worth()) => {
                    self.best = Some(view);
                }
                Ok(_) => {}
                Err(error) => self.last_error = Some(error.at(&address)),
            }
            asked.extend(rest.next().map(inquire));
        }
        false
    }

    /// Returns the best map, or why there is none.
    pub(super) fn ranges(self) -> Result<Vec<SlotRange>, RedisError> {
        if let Some(best) = self.best {
            return Ok(best.ranges);
        }
        let Some(first) = self.knowing_nothing.first() else {
            return Err(self.last_error.unwrap_or_else(RedisError::no_seeds));
        };
        let others = match (self.knowing_nothing.len(), &self.last_error) {
            (1, None) => String::new(),
            (count, None) => format!(" and {} more", count - 1),
            (_, Some(error)) => format!(", and of the others: {error}"),
        };
        let message = format!(
            "{first}{others}: the node answers, and knows no owner of any slot: it was reset, or has not joined. Name \
             nodes that CLUSTER NODES of a member lists, or create the cluster"
        );
        Err(RedisError::new(RedisErrorKind::Cluster, message))
    }
}

async fn inquire(node: &Arc<Node>, host: &str) -> Result<ClusterView, RedisError> {
    let mut questions = redis::pipe();
    questions.cmd("CLUSTER").arg("SLOTS").cmd("CLUSTER").arg("INFO");
    let mut replies = node.send_all(&questions, 2).await?.into_iter();
    let missing = || Err(RedisError::unparsed("CLUSTER SLOTS", "an array of ranges"));
    let slots = replies.next().unwrap_or_else(missing)?;
    ClusterView::read(slots, replies.next().and_then(Result::ok).as_ref(), host)
}

/// Returns whether the cluster is well, and its epoch, by the reply to `CLUSTER INFO`.
fn state(info: &Value) -> (bool, u64) {
    let text = match info {
        Value::BulkString(text) => std::str::from_utf8(text).unwrap_or_default(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text,
        _ => "",
    };
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim().split_once(':'));
        lines.find(|(field, _)| *field == name).map(|(_, content)| content)
    };
    let epoch = field("cluster_current_epoch").and_then(|epoch| epoch.parse().ok());
    (field("cluster_state").is_none_or(|state| state == "ok"), epoch.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_how_it_is() {
        let info = |text: &str| state(&Value::BulkString(text.as_bytes().to_vec()));
        assert_eq!(info("cluster_state:ok\r\ncluster_current_epoch:7\r\n"), (true, 7));
        assert_eq!(info("cluster_state:fail\r\ncluster_current_epoch:7\r\n"), (false, 7));
        assert_eq!(info(""), (true, 0));
    }

    #[test]
    fn who_is_well_and_knows_more_is_believed() {
        let view = |is_well, slots, epoch| ClusterView { ranges: Vec::new(), slots, is_well, epoch };
        let worse = [view(false, SLOTS, 9), view(true, 1, 9), view(true, SLOTS - 1, 3)];
        let best = view(true, SLOTS - 1, 4);
        assert!(worse.iter().all(|view| view.worth() < best.worth() && !view.is_whole()));
        assert!(view(true, SLOTS, 0).is_whole());
    }
}
