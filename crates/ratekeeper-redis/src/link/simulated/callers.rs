//! Those who ask through a link, and what became of their questions.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use redis::Value;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use super::super::{BreakerFactory, Link, LinkOptions, RedisAddress};
use super::chance::Chance;
use crate::error::RedisError;
use crate::script::{Script, ScriptCall};

/// How long a call may take: what a link has by itself, and what a timer rounds up.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);
const ROUNDING: Duration = Duration::from_millis(2);

/// One question and what became of it.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) number: u64,
    pub(super) key: String,
    pub(super) asked: Duration,
    pub(super) took: Duration,
    /// None if the caller gave up before there was an answer.
    pub(super) outcome: Option<Result<(), String>>,
}

/// Everybody who asks through one link.
pub(super) struct Callers {
    link: Link,
    script: Script,
    began: Instant,
    numbers: Cell<u64>,
    keys: Vec<String>,
    questions: RefCell<Vec<Question>>,
}

impl Callers {
    /// Returns nobody yet, on a link to this address, asking for these keys.
    pub(super) fn new(url: &str, keys: Vec<String>) -> Rc<Self> {
        let options = LinkOptions { command_timeout: PATIENCE, ..LinkOptions::default() };
        let address = RedisAddress::parse(url).unwrap();
        Rc::new(Callers {
            link: Link::open(&address, &options, BreakerFactory::default()),
            script: Script::new("return ARGV[1]".into()),
            began: Instant::now(),
            numbers: Cell::new(0),
            keys,
            questions: RefCell::default(),
        })
    }

    /// Has so many callers ask for a while.
    pub(super) fn start(self: &Rc<Self>, count: u64, seed: u64, until: Duration) -> Vec<JoinHandle<()>> {
        let chances = (1..=count).map(|caller| Chance::new(seed ^ caller << 40));
        chances.map(|chance| spawn_local(Rc::clone(self).ask_on(chance, until))).collect()
    }

    /// Asks again and again for a while, and gives up now and then.
    async fn ask_on(self: Rc<Self>, mut chance: Chance, until: Duration) {
        while self.began.elapsed() < until {
            let key = self.keys[chance.index(self.keys.len())].clone();
            let patience = if chance.once_in(10) { chance.millis(0..30) } else { Duration::MAX };
            self.ask(key, patience).await;
            sleep(chance.millis(2..50)).await;
        }
    }

    async fn ask(&self, key: String, patience: Duration) {
        let number = self.numbers.replace(self.numbers.get() + 1);
        let mut call = ScriptCall::default();
        call.key(key.as_bytes());
        call.number(number);
        let asked = self.began.elapsed();
        let answer: Option<Result<Value, RedisError>> =
            timeout(patience, self.link.run(&self.script, &call)).await.ok();
        let outcome = answer.map(|answer| match answer {
            Ok(Value::Int(answer)) if u64::try_from(answer) == Ok(number) => Ok(()),
            Ok(other) => panic!("question {number} got another's answer: {other:?}"),
            Err(error) => Err(format!("{:?}: {error}", error.kind())),
        });
        let took = self.began.elapsed() - asked;
        self.questions.borrow_mut().push(Question { number, key, asked, took, outcome });
    }

    pub(super) fn take_questions(&self) -> Vec<Question> {
        self.questions.take()
    }
}

/// What must be true of all questions: nothing is executed twice, what was answered was executed, and nobody waits for
/// longer than he was told.
pub(super) fn check(questions: &[Question], executed: impl Fn(u64) -> u32) -> Result<(), String> {
    for question in questions {
        let times = executed(question.number);
        if times > 1 {
            return Err(format!("executed {times} times: {question:?}"));
        }
        if matches!(question.outcome, Some(Ok(()))) && times == 0 {
            return Err(format!("answered, and not executed: {question:?}"));
        }
        if question.took > PATIENCE + ROUNDING {
            return Err(format!("too long: {question:?}"));
        }
    }
    Ok(())
}
