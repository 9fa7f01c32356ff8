CREATE TABLE delaybridge_ledger (
  key  bytea       NOT NULL PRIMARY KEY,
  done timestamptz NOT NULL
);

CREATE INDEX delaybridge_ledger_done ON delaybridge_ledger (done);
