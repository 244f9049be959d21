CREATE SCHEMA shop;
CREATE TABLE shop.orders (id int PRIMARY KEY, customer text NOT NULL, total numeric(10,2), status text, changed_by text);
ALTER TABLE shop.orders REPLICA IDENTITY FULL;
INSERT INTO shop.orders VALUES (1, 'Ada', 9.90, 'new', 'web'), (2, 'Bob', 250.00, 'new', 'web');
CREATE PUBLICATION orders FOR TABLE shop.orders;
