CREATE TABLE IF NOT EXISTS delaybridge_outbox (
  seq           BIGINT AUTO_INCREMENT PRIMARY KEY,
  action        VARCHAR(16)  NOT NULL DEFAULT 'publish',
  message_id    VARCHAR(255) NOT NULL,
  entry         VARCHAR(255) NOT NULL DEFAULT '',
  routing_key   VARCHAR(255) NOT NULL DEFAULT '',
  delay_ms      BIGINT, -- columns with ms have what x-delay and x-deliver-at have on the wire
  deliver_at_ms BIGINT,
  body          LONGBLOB     NOT NULL DEFAULT (''),
  headers       JSON         NOT NULL DEFAULT ('{}'),
  properties    JSON         NOT NULL DEFAULT ('{}'),
  created_ms    BIGINT       NOT NULL DEFAULT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000),
  retry_ms      BIGINT       NOT NULL DEFAULT 0,
  failed_ms     BIGINT,
  reason        TEXT,
  INDEX (message_id, entry, seq)
) ENGINE = InnoDB COMMENT = 'delaybridge' ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
