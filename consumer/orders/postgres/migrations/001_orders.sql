CREATE TABLE delaybridge_stock (
  sku       text    NOT NULL PRIMARY KEY,
  available integer NOT NULL CHECK (available >= 0)
);

CREATE TABLE delaybridge_orders (
  id         text    NOT NULL PRIMARY KEY,
  sku        text    NOT NULL REFERENCES delaybridge_stock (sku),
  quantity   integer NOT NULL CHECK (quantity > 0),
  state      text    NOT NULL CHECK (state IN ('pending', 'paid', 'closed')),
  placed_ms  bigint  NOT NULL, -- Unix time in milliseconds
  decided_ms bigint  CHECK ((decided_ms IS NULL) = (state = 'pending'))
);
