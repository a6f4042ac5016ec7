//! The table and its function, and the statements that use them.

use std::fmt;

use ratekeeper::{StoreError, StoreErrorKind};

use crate::error::TOO_LATE;

/// What the table's comment says: another layout has another number.
pub(crate) const LAYOUT: &str = "ratekeeper layout 1";

/// The most bytes of a part of a table's name: what is named after it must fit as well.
const MOST_NAME: usize = 40;

/// The types of the arguments of the function: others may have given its name to another one.
const ARGUMENTS: &str = "bigint,bigint,bigint,bytea[],integer[],bigint[],bigint[],bytea[],bigint[]";

/// The name of a table, with its schema if that is not the first of the search path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    schema: Option<String>,
    name: String,
}

impl TableName {
    /// Checks a name such as `ratekeeper` or `limits.ratekeeper`.
    pub(crate) fn parse(text: &str) -> Result<Self, StoreError> {
        let (schema, name) = match text.split_once('.') {
            Some((schema, name)) => (Some(schema), name),
            None => (None, text),
        };
        let is_name = |part: &str| {
            let first = part.bytes().next();
            first.is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
                && part.len() <= MOST_NAME
                && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        if !is_name(name) || schema.is_some_and(|schema| !is_name(schema)) {
            let message = format!(
                "table: {:?}; lower-case letters, digits and `_`, at most {MOST_NAME}, with a schema before a dot if it has one",
                text.chars().take(2 * MOST_NAME).collect::<String>()
            );
            return Err(StoreError::new(StoreErrorKind::Unsupported, message).because("address"));
        }
        Ok(TableName { schema: schema.map(str::to_owned), name: name.to_owned() })
    }

    /// Returns the name of the function, which has the number of its version in it: two versions of a program may be at work.
    fn exchange(&self) -> TableName {
        TableName { schema: self.schema.clone(), name: format!("{}_exchange_3", self.name) }
    }

    /// Returns the name as it is written in statements: in quotes, because `user` and `order` are words of theirs. It was checked
    /// that it has no quotes in it.
    fn quoted(&self) -> String {
        match &self.schema {
            Some(schema) => format!("\"{schema}\".\"{}\"", self.name),
            None => format!("\"{}\"", self.name),
        }
    }

    /// Returns the schema in which a user must be allowed to create what is missing.
    pub(crate) fn schema(&self) -> &str {
        self.schema.as_deref().unwrap_or("public")
    }

    /// Returns a number that sessions agree upon, for locks that belong to this table.
    pub(crate) fn lock_number(&self) -> i64 {
        let hash = self.to_string().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        hash.cast_signed()
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Returns what makes the function, and the table if that is not there either: several statements.
///
/// Updates leave their old rows on the same page where there is room, and touch no index: no column that changes has one.
pub(crate) fn creation(table: &TableName, is_logged: bool, has_table: bool) -> String {
    let logging = if is_logged { "" } else { "UNLOGGED " };
    let (exchange, lock) = (table.exchange().quoted(), table.lock_number());
    let table = table.quoted();
    // Whoever may make a function need not own the table.
    let make_table = match has_table {
        true => String::new(),
        false => format!(
            "CREATE {logging}TABLE IF NOT EXISTS {table} (
    key bytea PRIMARY KEY,
    stamp bigint NOT NULL,
    record bytea NOT NULL,
    expires_at bigint NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE {table} IS '{LAYOUT}';
"
        ),
    };
    // One session makes it, and others wait: two at once would fail. That is not bound by the time of a decision, but by how
    // long connecting may take.
    let statements = format!(
        "BEGIN;
SET LOCAL lock_timeout = '10s';
SET LOCAL statement_timeout = '10s';
SELECT pg_advisory_xact_lock({lock});
{make_table}CREATE OR REPLACE FUNCTION {exchange}(
    earliest bigint, latest bigint, deadline bigint,
    keys bytea[], together integer[], olds bigint[], news bigint[], records bytea[], expiries bigint[],
    OUT place integer, OUT present bigint, OUT content bytea
) RETURNS SETOF record LANGUAGE plpgsql AS $body$
{EXCHANGE}
$body$;
COMMIT;"
    );
    statements.replace("{table}", &table).replace("{TOO_LATE}", TOO_LATE)
}

/// Compares rows by their stamps, and sets those that are as expected.
///
/// The first row that it returns tells the server's clock: at place 0, or at -1 if the decision was not made now, and nothing
/// was done. The others are the rows that were not as expected, as they are.
///
/// Rows that belong together are set if all of them are as expected and can be locked. A row of stamp 0 is none: it is there to
/// be locked. It waits for nobody who has locked a row, changes or deletes it, whatever that row becomes: such a row is not as
/// expected, and one row that is stuck does not hold up the others. That is why it looks before it makes a row, because
/// `ON CONFLICT` would wait for whoever changes the row that is there. It does wait for whoever is making the same row, and keys
/// come in their order, so that two of these do so in the same one. If all of it has taken until after `deadline`, it is undone:
/// nobody waits any more.
const EXCHANGE: &str = "DECLARE
    clock CONSTANT bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    failed integer[] := '{}';
    is_met boolean;
    has_written boolean := false;
BEGIN
    place := CASE WHEN clock BETWEEN earliest AND latest THEN 0 ELSE -1 END;
    present := clock;
    RETURN NEXT;
    IF place < 0 THEN
        RETURN;
    END IF;
    FOR i IN 1 .. cardinality(keys) LOOP
        is_met := false;
        IF news[i] = 0 AND together[i] = 0 THEN
            SELECT t.stamp, t.record INTO present, content FROM {table} t WHERE t.key = keys[i];
            is_met := coalesce(present, 0) = olds[i];
        ELSE
            IF olds[i] = 0 AND news[i] <> 0
                AND NOT EXISTS (SELECT 1 FROM {table} t WHERE t.key = keys[i])
            THEN
                IF together[i] > 0 THEN
                    INSERT INTO {table} VALUES (keys[i], 0, '', 0) ON CONFLICT (key) DO NOTHING;
                ELSE
                    INSERT INTO {table} VALUES (keys[i], news[i], records[i], expiries[i]) ON CONFLICT (key) DO NOTHING;
                    is_met := FOUND;
                END IF;
            END IF;
            IF together[i] > 0 THEN
                SELECT t.stamp, t.record INTO present, content FROM {table} t WHERE t.key = keys[i]
                FOR UPDATE SKIP LOCKED;
                is_met := FOUND AND present = olds[i];
            ELSIF is_met THEN
                NULL;
            ELSIF records[i] IS NULL THEN
                DELETE FROM {table} t WHERE t.ctid = (
                    SELECT l.ctid FROM {table} l WHERE l.key = keys[i] AND l.stamp = olds[i] FOR UPDATE SKIP LOCKED
                );
                is_met := FOUND;
            ELSE
                UPDATE {table} t SET stamp = news[i], record = records[i], expires_at = expiries[i]
                WHERE t.ctid = (
                    SELECT l.ctid FROM {table} l WHERE l.key = keys[i] AND l.stamp = olds[i] FOR UPDATE SKIP LOCKED
                );
                is_met := FOUND;
            END IF;
            IF NOT is_met THEN
                SELECT t.stamp, t.record INTO present, content FROM {table} t WHERE t.key = keys[i];
                is_met := NOT FOUND AND olds[i] = 0 AND news[i] = 0;
            END IF;
            has_written := has_written OR (is_met AND news[i] <> 0);
        END IF;
        IF NOT is_met THEN
            place := i;
            present := coalesce(present, 0);
            failed := failed || together[i];
            RETURN NEXT;
        END IF;
    END LOOP;
    FOR i IN 1 .. cardinality(keys) LOOP
        IF together[i] > 0 AND news[i] <> 0 AND NOT together[i] = ANY (failed) THEN
            IF records[i] IS NULL THEN
                DELETE FROM {table} t WHERE t.key = keys[i];
            ELSE
                UPDATE {table} t SET stamp = news[i], record = records[i], expires_at = expiries[i]
                WHERE t.key = keys[i];
            END IF;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'a row that was locked is gone' USING ERRCODE = '40001';
            END IF;
        END IF;
    END LOOP;
    IF has_written AND (extract(epoch FROM clock_timestamp()) * 1000000)::bigint > deadline THEN
        RAISE EXCEPTION 'it took too long' USING ERRCODE = '{TOO_LATE}';
    END IF;
END";

/// Returns the question what is there: the table's comment, whether there is a table, whether there is its function, what the
/// clock says, and whether the server takes no writes, as a standby does.
pub(crate) fn survey(table: &TableName) -> String {
    let (exchange, table) = (table.exchange().quoted(), table.quoted());
    format!(
        "SELECT obj_description(to_regclass('{table}'), 'pg_class'), to_regclass('{table}') IS NOT NULL, \
         to_regprocedure('{exchange}({ARGUMENTS})') IS NOT NULL, \
         (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
         current_setting('transaction_read_only') = 'on'"
    )
}

/// Returns the statement of every decision.
pub(crate) fn exchange(table: &TableName) -> String {
    format!(
        "SELECT place, present, content FROM {}($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        table.exchange().quoted()
    )
}

/// Returns the statement that locks rows, in the order of their keys, and makes those that are not there: in one go, because
/// whoever made them first and locked the others then would do so in another order than the rest.
pub(crate) fn lock(table: &TableName) -> String {
    let table = table.quoted();
    format!(
        "INSERT INTO {table} AS t SELECT key, 0, '', 0 FROM unnest($1::bytea[]) key ORDER BY key \
         ON CONFLICT (key) DO UPDATE SET stamp = t.stamp RETURNING t.key, t.stamp, t.record"
    )
}

/// Returns the statement that deletes what has expired among the rows after a key: at most so many are looked at, by one
/// session at a time, and rows that others work on are left alone. The first column of its answer tells whether it was this
/// session's turn.
pub(crate) fn sweep(table: &TableName) -> String {
    let (lock, table) = (table.lock_number().wrapping_add(1), table.quoted());
    format!(
        "WITH turn AS MATERIALIZED (SELECT pg_try_advisory_xact_lock({lock}) AS is_mine),
slice AS MATERIALIZED (
    SELECT t.key, t.expires_at FROM turn, LATERAL (
        SELECT key, expires_at FROM {table} WHERE turn.is_mine AND key > $1 ORDER BY key LIMIT $2
    ) t
),
dead AS MATERIALIZED (
    SELECT key FROM {table} WHERE key IN (SELECT key FROM slice WHERE expires_at < $3) AND expires_at < $3
    FOR UPDATE SKIP LOCKED
),
gone AS (DELETE FROM {table} t USING dead WHERE t.key = dead.key AND t.expires_at < $3 RETURNING 1)
SELECT (SELECT is_mine FROM turn), (SELECT count(*) FROM slice), (SELECT key FROM slice ORDER BY key DESC LIMIT 1), (SELECT count(*) FROM gone)"
    )
}

/// Returns the statement that deletes the first rows whose keys lie between two.
pub(crate) fn forget(table: &TableName) -> String {
    let table = table.quoted();
    format!(
        "DELETE FROM {table} WHERE key IN (
    SELECT key FROM {table} WHERE key >= $1 AND ($2::bytea IS NULL OR key < $2) ORDER BY key LIMIT $3 FOR UPDATE
) RETURNING key, record"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_because_they_become_statements() {
        for name in ["ratekeeper", "limits.ratekeeper", "_1", &"a".repeat(40)] {
            assert_eq!(TableName::parse(name).unwrap().to_string(), *name);
        }
        for name in ["", "a b", "a;b", "Ä", "a.b.c", ".a", "a.", "1a", "A", "a\"", &"a".repeat(41)] {
            let said = TableName::parse(name).unwrap_err().to_string();
            assert!(said.starts_with("table: "), "{said}");
        }
        let table = TableName::parse("limits.states").unwrap();
        assert_eq!(
            (table.schema(), table.exchange().to_string().as_str()),
            ("limits", "limits.states_exchange_3")
        );
        let made = creation(&table, false, false);
        assert!(
            !made.contains("{table}")
                && made.contains("CREATE UNLOGGED TABLE IF NOT EXISTS \"limits\".\"states\" (")
        );
        assert!(creation(&table, true, false).contains("CREATE TABLE IF NOT EXISTS \"limits\".\"states\" ("));
        assert!(!creation(&table, true, true).contains("CREATE TABLE"));
    }
}
