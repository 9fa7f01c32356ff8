-- VARBINARY, since texts are equal there when they differ by case or by spaces at
-- the end.
CREATE TABLE IF NOT EXISTS delaybridge_orders (
  id         VARBINARY(255) NOT NULL PRIMARY KEY,
  sku        VARBINARY(255) NOT NULL,
  quantity   INT            NOT NULL CHECK (quantity > 0),
  state      VARCHAR(7) CHARACTER SET ascii NOT NULL CHECK (state IN ('pending', 'paid', 'closed')),
  placed_ms  BIGINT         NOT NULL, -- Unix time in milliseconds
  decided_ms BIGINT         NULL,
  CHECK ((decided_ms IS NULL) = (state = 'pending')),
  FOREIGN KEY (sku) REFERENCES delaybridge_stock (sku)
) ENGINE = InnoDB COMMENT = 'delaybridge'
