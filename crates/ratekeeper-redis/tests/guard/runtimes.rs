//! A runtime on each thread: each has a connection of its own, which ends with it and with nothing else.

use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::thread;

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, Quota, Rules};
use ratekeeper_redis::RedisStore;

use crate::support::server::Server;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn ask(store: &RedisStore) -> u64 {
    let quota = Quota::throttle(100, 1, 3600).unwrap();
    let request = Request { key: Key::new("k").unwrap(), rules: Rules::Quota(&quota), cost: Cost::ONE };
    store.acquire(request).await.unwrap().remaining
}

fn clients(server: &Server) -> usize {
    let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut server.connection()).unwrap();
    list.lines().count() - 1
}

#[test]
fn the_end_of_one_runtime_is_not_noticed_by_another() {
    let server = Server::redis();
    let two = NonZeroUsize::new(2).unwrap();
    // No answer may be lost for want of time: the machine may be busy.
    let builder = RedisStore::builder(&server.url()).connections(two);
    let store = builder.command_timeout(std::time::Duration::from_secs(30)).build().unwrap();
    let (asked, both) = mpsc::channel();
    let (go_on, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let first = scope.spawn({
            let (store, asked) = (&store, asked.clone());
            move || {
                let runtime = runtime();
                runtime.block_on(ask(store));
                asked.send(()).unwrap();
                // Waits here with its connection open.
                ended.recv().unwrap();
            }
        });
        both.recv().unwrap();
        scope.spawn(|| {
            let runtime = runtime();
            assert_eq!(runtime.block_on(ask(&store)), 98);
            assert_eq!(clients(&server), 2);
            go_on.send(()).unwrap();
            first.join().unwrap();
            assert_eq!(runtime.block_on(ask(&store)), 97, "nothing is lost, and nothing asked twice");
        });
    });
}
