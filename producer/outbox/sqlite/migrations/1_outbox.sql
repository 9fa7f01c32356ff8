CREATE TABLE delaybridge_outbox (
  seq           INTEGER PRIMARY KEY AUTOINCREMENT,
  action        TEXT    NOT NULL DEFAULT 'publish',
  message_id    TEXT    NOT NULL,
  entry         TEXT    NOT NULL DEFAULT '',
  routing_key   TEXT    NOT NULL DEFAULT '',
  delay_ms      INTEGER, -- columns with ms have what x-delay and x-deliver-at have on the wire
  deliver_at_ms INTEGER,
  body          BLOB    NOT NULL DEFAULT x'',
  headers       TEXT    NOT NULL DEFAULT '{}',
  properties    TEXT    NOT NULL DEFAULT '{}',
  created_ms    INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)),
  retry_ms      INTEGER NOT NULL DEFAULT 0,
  failed_ms     INTEGER,
  reason        TEXT
);

CREATE INDEX delaybridge_outbox_order ON delaybridge_outbox (message_id, entry, seq) WHERE failed_ms IS NULL;
