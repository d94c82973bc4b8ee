//! A write to a database that is refused when a later owner of the lock has written.

use rusqlite::{Connection, Result, named_params};

/// The highest token that has written a row is kept in the row.
pub const TABLE: &str = "CREATE TABLE stock (
    id TEXT PRIMARY KEY,
    amount INTEGER NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0
)";

/// Writes both, or changes no row.
pub const UPDATE: &str = "UPDATE stock SET amount = :amount, fence = :token
    WHERE id = :id AND fence <= :token";

/// Says whether it was written; if not, the writer is not the owner any more, or
/// there is no such row. (Where a database counts the rows that it changed, as MySQL
/// does, have its client ask for those that it found.)
pub fn set_amount(db: &Connection, id: &str, amount: i64, fencing_token: u64) -> Result<bool> {
    let token = i64::try_from(fencing_token).expect("a fencing token is below 2^53");
    let rows = db.execute(
        UPDATE,
        named_params! { ":id": id, ":amount": amount, ":token": token },
    )?;
    Ok(rows == 1)
}
