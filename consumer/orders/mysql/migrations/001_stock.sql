-- One statement, which may be repeated: here each commits by itself.
CREATE TABLE IF NOT EXISTS delaybridge_stock (
  sku       VARBINARY(255) NOT NULL PRIMARY KEY,
  available INT            NOT NULL CHECK (available >= 0)
) ENGINE = InnoDB COMMENT = 'delaybridge'
