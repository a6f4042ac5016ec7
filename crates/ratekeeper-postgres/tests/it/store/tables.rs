//! The table: made when it is not there, refused when it is not ours, found again when it is gone.

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, Quota, Rules, StoreError};
use ratekeeper_postgres::{PostgresStore, PostgresStoreBuilder};

use test_support::postgres::Server;

fn ask(builder: PostgresStoreBuilder) -> Result<u64, StoreError> {
    remaining(&builder.build().unwrap())
}

fn remaining(store: &PostgresStore) -> Result<u64, StoreError> {
    let quota: Quota = "9/day".parse().unwrap();
    let request = Request::new(Key::new("k").unwrap(), Rules::Quota(&quota), Cost::ONE);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { store.acquire(request).await }).map(|decision| decision.remaining)
}

#[test]
fn names_keep_limits_apart() {
    let Some(server) = Server::start(&[]) else { return };
    server.sql("CREATE SCHEMA limits");
    for table in ["ratekeeper", "other", "limits.ratekeeper"] {
        assert_eq!(ask(crate::store::patient(&server).table(table)).unwrap(), 8, "{table}");
        assert_eq!(ask(crate::store::patient(&server).table(table)).unwrap(), 7, "{table}");
    }
    let logged = "SELECT relpersistence FROM pg_class WHERE oid = to_regclass";
    assert_eq!(server.sql(&format!("{logged}('ratekeeper')")), ["u"]);
    assert_eq!(ask(crate::store::patient(&server).table("durable").logged(true)).unwrap(), 8);
    assert_eq!(server.sql(&format!("{logged}('durable')")), ["p"]);
}

/// Ten that start at once make one table.
#[test]
fn whoever_comes_first_makes_it() {
    let Some(server) = Server::start(&[]) else { return };
    let left = std::thread::scope(|scope| {
        let asking: Vec<_> =
            (0..10).map(|_| scope.spawn(|| ask(crate::store::patient(&server)).unwrap())).collect();
        let mut left: Vec<u64> = asking.into_iter().map(|asked| asked.join().unwrap()).collect();
        left.sort_unstable();
        left
    });
    assert_eq!(left, [0, 0, 1, 2, 3, 4, 5, 6, 7, 8], "one of ten is refused");
}

/// An instance that was connecting when the table was dropped had its calls fail, though it is made again.
#[test]
fn a_table_that_goes_while_somebody_connects_is_made_again() {
    let Some(server) = Server::start(&[]) else { return };
    // Dropped as soon as it is made, once.
    server.sql(
        "CREATE TABLE once (); \
         CREATE FUNCTION drop_it() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF to_regclass('once') IS NOT NULL THEN DROP TABLE once; DROP TABLE ratekeeper; END IF; END $$; \
         CREATE EVENT TRIGGER drops_it ON ddl_command_end WHEN TAG IN ('CREATE FUNCTION') EXECUTE FUNCTION drop_it()",
    );
    assert_eq!(ask(crate::store::patient(&server)).unwrap(), 8);
    assert_eq!(server.sql("SELECT to_regclass('once') IS NULL"), ["t"], "it was dropped");
}

#[test]
fn it_is_made_again_when_it_is_gone() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).build().unwrap();
    assert_eq!(remaining(&store).unwrap(), 8);
    for gone in ["DROP TABLE ratekeeper", "DROP FUNCTION ratekeeper_exchange_3", "TRUNCATE ratekeeper"] {
        let before = remaining(&store).unwrap();
        server.sql(gone);
        let expected = if gone.contains("FUNCTION") { before - 1 } else { 8 };
        assert_eq!(remaining(&store).unwrap(), expected, "{gone}");
    }
}

#[test]
fn who_may_not_make_it_is_told_what_to_say() {
    let Some(server) = Server::start(&[]) else { return };
    server.sql("CREATE ROLE guest LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    let guest = || crate::store::patient_at(&server.url_of("guest"));
    let error = ask(guest()).unwrap_err();
    assert_eq!(
        (error.reason(), error.to_string().as_str()),
        (
            "auth",
            "table: ratekeeper; it is not there, and guest may not create it: let an owner run `GRANT USAGE, CREATE ON \
             SCHEMA public TO guest`, or start one instance as a user who may"
        )
    );
    // An owner has made it, and lets the guest in.
    assert_eq!(ask(crate::store::patient(&server)).unwrap(), 8);
    let error = ask(guest()).unwrap_err();
    assert!(error.to_string().contains("must be allowed SELECT, INSERT, UPDATE and DELETE"), "{error}");
    server.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ratekeeper TO guest");
    assert_eq!(ask(guest()).unwrap(), 7);
    server.sql("REVOKE SELECT, INSERT, UPDATE, DELETE ON ratekeeper FROM guest; GRANT CREATE ON SCHEMA public TO guest");
    assert_eq!(ask(guest().table("own")).unwrap(), 8);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let Some(server) = Server::start(&[]) else { return };
    server.sql("CREATE TABLE ratekeeper (id int); CREATE TABLE newer (id int); COMMENT ON TABLE newer IS 'ratekeeper layout 2'");
    for (table, of) in [("ratekeeper", "another program"), ("newer", "ratekeeper layout 2")] {
        let error = ask(crate::store::patient(&server).table(table)).unwrap_err();
        assert_eq!(error.reason(), "wrong_table");
        assert!(error.to_string().contains(of), "{error}");
    }
    // A row that nobody here can read.
    assert_eq!(ask(crate::store::patient(&server).table("ours")).unwrap(), 8);
    server.sql("UPDATE ours SET record = '\\x07', stamp = 5");
    let store = crate::store::patient(&server).table("ours").build().unwrap();
    for _ in 0..2 {
        let error = remaining(&store).unwrap_err();
        assert!(
            error.to_string().contains("a row of ours cannot be read") && !error.is_transient(),
            "{error}"
        );
    }
    server.sql("DELETE FROM ours");
    assert_eq!(remaining(&store).unwrap(), 8, "who was told to delete it has done so");
}

/// What PostgreSQL has words for is a name as any other.
#[test]
fn a_table_may_have_any_name() {
    let Some(server) = Server::start(&[]) else { return };
    for table in ["user", "order"] {
        assert_eq!(ask(crate::store::patient(&server).table(table)).unwrap(), 8, "{table}");
    }
    let error = ask(crate::store::patient(&server).table("nowhere.limits")).unwrap_err();
    assert!(error.to_string().contains("CREATE SCHEMA nowhere"), "{error}");
}

#[test]
fn a_password_is_given_to_whom_asks_for_it() {
    let Some(server) = Server::start(&[]) else { return };
    server.sql("CREATE ROLE guest LOGIN PASSWORD 'open sesame'; GRANT CREATE ON SCHEMA public TO guest");
    let check = |user: &str| {
        let store = crate::store::patient_at(&server.url_of(user));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.build().unwrap().check())
    };
    server.ask_for_password("guest");
    test_support::wait::until("it is asked for", || {
        check("guest:wrong").is_err_and(|error| error.reason() == "auth")
    });
    assert!(check("guest").is_err());
    check("guest:open%20sesame").unwrap();
}

#[test]
fn what_is_wrong_with_an_address_is_told() {
    let Some(server) = Server::start(&[]) else { return };
    let told = |url: &str| ask(crate::store::patient_at(url)).unwrap_err();
    let no_database = told(&format!("{}?dbname=nowhere", server.url()));
    assert_eq!(no_database.reason(), "no_database", "{no_database}");
    let store = crate::store::patient_at(&format!("{}?dbname=nowhere", server.url())).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(store.check()).unwrap_err().reason(), "no_database");
    let no_user = told(&server.url_of("stranger"));
    assert_eq!(no_user.reason(), "auth", "{no_user}");
    let nobody = told("postgres://postgres@127.0.0.1:1/postgres");
    assert_eq!(nobody.reason(), "unreachable", "{nobody}");
    assert!(nobody.to_string().contains("cannot reach the server"), "{nobody}");
}
