INSERT INTO shop.orders VALUES (3, 'Cleo', 40.00, 'new', 'web');
UPDATE shop.orders SET status = 'paid', changed_by = 'till' WHERE id = 2;
UPDATE shop.orders SET total = 2.50, changed_by = 'erin' WHERE id = 2;
DELETE FROM shop.orders WHERE id = 1;
