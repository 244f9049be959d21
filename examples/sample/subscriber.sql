-- For any server of PostgreSQL 14 or newer: its tables become those of the sample, whose own server is stopped.
CREATE SCHEMA shop;
CREATE TABLE shop.orders (id int PRIMARY KEY, customer text, total numeric(10,2), status text, changed_by text);
CREATE SUBSCRIPTION orders CONNECTION 'host=localhost port=6432 dbname=postgres user=reader password=secret'
    PUBLICATION orders;
