-- Version 1. To change it, append a script to migrations in migrate.go.
CREATE TABLE delaybridge_stock (
  sku       TEXT    NOT NULL PRIMARY KEY,
  available INTEGER NOT NULL CHECK (available >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE delaybridge_orders (
  id         TEXT    NOT NULL PRIMARY KEY,
  sku        TEXT    NOT NULL REFERENCES delaybridge_stock (sku),
  quantity   INTEGER NOT NULL CHECK (quantity > 0),
  state      TEXT    NOT NULL CHECK (state IN ('pending', 'paid', 'closed')),
  placed_ms  INTEGER NOT NULL, -- Unix time in milliseconds
  decided_ms INTEGER CHECK ((decided_ms IS NULL) = (state = 'pending'))
) STRICT, WITHOUT ROWID;
