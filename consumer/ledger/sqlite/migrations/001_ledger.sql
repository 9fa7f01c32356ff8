CREATE TABLE delaybridge_ledger (
  key     BLOB    NOT NULL PRIMARY KEY,
  done_ms INTEGER NOT NULL -- Unix time in milliseconds
) STRICT, WITHOUT ROWID;

CREATE INDEX delaybridge_ledger_done_ms ON delaybridge_ledger (done_ms);
