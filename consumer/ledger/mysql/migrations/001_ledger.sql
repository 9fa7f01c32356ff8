CREATE TABLE IF NOT EXISTS delaybridge_ledger (
  id      VARBINARY(512) NOT NULL PRIMARY KEY,
  done_ms BIGINT         NOT NULL, -- Unix time in milliseconds
  INDEX (done_ms)
) ENGINE = InnoDB COMMENT = 'delaybridge' ROW_FORMAT = DYNAMIC
