-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- A program for the demonstration and for tests/programs: an in-memory database that is filled,
-- indexed, joined, updated and thinned out. What it prints depends on nothing but this file.
-- Usage: sqlite3 :memory: < workload.sql

CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, town TEXT);
CREATE TABLE purchase (id INTEGER PRIMARY KEY, customer INTEGER, item TEXT, price REAL, note TEXT);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO customer SELECT i, printf('customer %05d', i), printf('town %d', i * 7919 % 311) FROM n;

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 130000)
INSERT INTO purchase
SELECT i, i * 48271 % 20000 + 1, printf('item-%d', i * 16807 % 9973), (i * 69621 % 100000) / 100.0,
       substr('the quick brown fox jumps over the lazy dog and runs home', 1, i % 57 + 1)
FROM n;

CREATE INDEX purchase_customer ON purchase (customer);
CREATE INDEX purchase_item ON purchase (item, price);

SELECT town, count(*), round(sum(price), 2)
FROM purchase JOIN customer ON customer.id = purchase.customer
GROUP BY town ORDER BY 3 DESC LIMIT 10;

SELECT item, count(DISTINCT customer), round(avg(price), 3), max(length(note))
FROM purchase GROUP BY item ORDER BY 2 DESC, 1 LIMIT 10;

UPDATE purchase SET note = note || ' ' || upper(note), price = price * 1.1 WHERE id % 3 = 0;
DELETE FROM purchase WHERE id % 5 = 1;

SELECT count(*), round(sum(price), 2), sum(length(note)) FROM purchase;

SELECT substr(names, 1, 60), length(names) FROM (
    SELECT town, group_concat(name, ',') AS names FROM customer GROUP BY town
) ORDER BY length(names) DESC, names LIMIT 5;

WITH ranked AS (
    SELECT customer, item, price, row_number() OVER (PARTITION BY customer ORDER BY price DESC, id) AS place
    FROM purchase
)
SELECT place, count(*), round(avg(price), 4) FROM ranked GROUP BY place ORDER BY place LIMIT 12;
PRAGMA integrity_check;
