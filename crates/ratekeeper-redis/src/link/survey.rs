//! Asking nodes for the map of their cluster, until one is found that knows it all.
//!
//! A node that was reset or forgotten runs alone and knows of no slots. One that is cut off from the others may know
//! of all of them, as they were. So the first answer is taken only if it is whole and its node says that the cluster
//! is well; otherwise everybody is asked, and the best answer is taken.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::Value;

use super::node::Node;
use super::slot::SLOTS;
use super::topology::{self, Range};
use crate::error::{RedisError, RedisErrorKind};

/// How many are asked at once: one that is frozen must not keep the others from being asked, and a cluster of many
/// nodes is not to be asked as a whole each time.
const AT_ONCE: usize = 3;

/// Somebody to be asked.
pub(super) struct Candidate {
    pub(super) node: Arc<Node>,
    /// What to call a node that does not know its own name.
    pub(super) host: String,
    /// Where it is, to be told.
    pub(super) place: String,
}

/// What was learnt so far.
pub(super) struct Survey {
    patience: Duration,
    best: Option<View>,
    /// Who answered, and knows of no slots.
    knowing_nothing: Vec<String>,
    last_error: Option<RedisError>,
}

/// The cluster as one of its nodes sees it.
struct View {
    ranges: Vec<Range>,
    slots: usize,
    /// The node can reach most of the others, and sees all slots served that must be.
    is_well: bool,
    /// Counts the changes of the map.
    epoch: u64,
}

impl View {
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

    /// Asks them, until one knows it all. True if one did.
    pub(super) async fn ask(&mut self, candidates: Vec<Candidate>) -> bool {
        let patience = self.patience;
        let mut rest = candidates.into_iter();
        let inquire = |candidate: Candidate| async move {
            let answer = tokio::time::timeout(patience, inquire(&candidate.node, &candidate.host)).await;
            let answer = answer.unwrap_or_else(|_| Err(RedisError::timeout(patience)));
            (candidate.place, answer)
        };
        let mut asked: FuturesUnordered<_> = rest.by_ref().take(AT_ONCE).map(inquire).collect();
        while let Some((place, answer)) = asked.next().await {
            match answer {
                Ok(view) if view.is_whole() => {
                    self.best = Some(view);
                    return true;
                }
                Ok(view) if view.slots == 0 => self.knowing_nothing.push(place),
                Ok(view) if self.best.as_ref().is_none_or(|best| best.worth() < view.worth()) => {
                    self.best = Some(view);
                }
                Ok(_) => {}
                Err(error) => self.last_error = Some(error.at(&place)),
            }
            asked.extend(rest.next().map(inquire));
        }
        false
    }

    /// The best map, or why there is none.
    pub(super) fn ranges(self) -> Result<Vec<Range>, RedisError> {
        if let Some(best) = self.best {
            return Ok(best.ranges);
        }
        let Some(first) = self.knowing_nothing.first() else {
            return Err(self.last_error.unwrap_or_else(|| RedisError::protocol("a cluster without seeds")));
        };
        let others = match (self.knowing_nothing.len(), &self.last_error) {
            (1, None) => String::new(),
            (count, None) => format!(" and {} more", count - 1),
            (_, Some(error)) => format!(", and of the others: {error}"),
        };
        let message = format!(
            "{first}{others}: it answers, and knows no owner of any slot: it was reset, or has not joined. Name nodes \
             that CLUSTER NODES of a member lists, or create the cluster"
        );
        Err(RedisError::new(RedisErrorKind::Cluster, message))
    }
}

async fn inquire(node: &Arc<Node>, host: &str) -> Result<View, RedisError> {
    let mut questions = redis::pipe();
    questions.cmd("CLUSTER").arg("SLOTS").cmd("CLUSTER").arg("INFO");
    let mut replies = node.send_all(&questions, 2).await?.into_iter();
    let missing = || Err(RedisError::protocol("no reply to CLUSTER SLOTS"));
    let ranges = topology::read(replies.next().unwrap_or_else(missing)?, host)?;
    let slots = ranges.iter().map(|range| range.last - range.first + 1).sum();
    // Who may not ask for it must believe that all is well.
    let state = replies.next().and_then(Result::ok).as_ref().map_or((true, 0), state);
    Ok(View { ranges, slots, is_well: state.0, epoch: state.1 })
}

/// Whether the cluster is well, and its epoch, by the reply to `CLUSTER INFO`.
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
        let view = |is_well, slots, epoch| View { ranges: Vec::new(), slots, is_well, epoch };
        let worse = [view(false, SLOTS, 9), view(true, 1, 9), view(true, SLOTS - 1, 3)];
        let best = view(true, SLOTS - 1, 4);
        assert!(worse.iter().all(|view| view.worth() < best.worth() && !view.is_whole()));
        assert!(view(true, SLOTS, 0).is_whole());
    }
}
