"""Scenarios about publications that change between the changes that they publish.

The form of the scripts is described in :mod:`oracle.scenarios`.
"""

from __future__ import annotations

CHANGING_PUBLICATIONS: dict[str, str] = {
    "publications": """
CREATE TABLE listed (id int PRIMARY KEY, a text);
CREATE TABLE inserts_only (id int PRIMARY KEY, a text);
CREATE TABLE neither (id int PRIMARY KEY, a text);
ALTER PUBLICATION pub_list ADD TABLE listed;
ALTER PUBLICATION pub_some ADD TABLE inserts_only;
---
a| INSERT INTO listed VALUES (1, 'a')
a| INSERT INTO inserts_only VALUES (1, 'a')
a| INSERT INTO neither VALUES (1, 'a')
a| UPDATE listed SET a = 'b'
a| UPDATE inserts_only SET a = 'b'
a| DELETE FROM inserts_only
a| TRUNCATE listed, inserts_only, neither
a| ALTER PUBLICATION pub_list ADD TABLE neither
a| INSERT INTO neither VALUES (2, 'in')
a| INSERT INTO listed VALUES (2, 'again')
a| ALTER PUBLICATION pub_list DROP TABLE listed
a| INSERT INTO listed VALUES (3, 'out')
a| ALTER PUBLICATION pub_some SET (publish = 'insert, update, delete, truncate')
a| INSERT INTO inserts_only VALUES (3, 'x')
a| UPDATE inserts_only SET a = 'y'
a| BEGIN
a| INSERT INTO inserts_only VALUES (4, 'x')
b| ALTER PUBLICATION pub_some SET (publish = 'delete')
a| INSERT INTO inserts_only VALUES (5, 'x')
a| DELETE FROM inserts_only
a| COMMIT
a| ALTER PUBLICATION pub_list SET TABLE neither
a| ALTER PUBLICATION pub_some SET (publish = 'insert, delete')
a| CREATE PUBLICATION another FOR TABLE listed
a| INSERT INTO neither VALUES (9, 'last')
a| DROP PUBLICATION another
a| INSERT INTO neither VALUES (10, 'last')
""",
    "publications_changed_by_the_writer": """
CREATE TABLE few (id int PRIMARY KEY, a text);
CREATE TABLE other (id int PRIMARY KEY, a text);
ALTER PUBLICATION pub_some ADD TABLE few;
---
a| ALTER PUBLICATION pub_list ADD TABLE other
a| BEGIN
a| INSERT INTO few VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')
a| UPDATE few SET a = 'not published' WHERE id = 1
a| ALTER PUBLICATION pub_some SET (publish = 'update')
a| UPDATE few SET a = 'published' WHERE id = 2
a| SAVEPOINT s
a| ALTER PUBLICATION pub_some SET (publish = 'delete')
a| UPDATE few SET a = 'gone' WHERE id = 3
a| DELETE FROM few WHERE id = 1
a| ROLLBACK TO SAVEPOINT s
a| UPDATE few SET a = 'published again' WHERE id = 3
a| INSERT INTO other VALUES (1, 'in')
a| ALTER PUBLICATION pub_list DROP TABLE other
a| INSERT INTO other VALUES (2, 'out')
a| SAVEPOINT s
a| ALTER PUBLICATION pub_list ADD TABLE other
a| INSERT INTO other VALUES (3, 'in')
a| RELEASE SAVEPOINT s
a| INSERT INTO other VALUES (4, 'in')
a| ALTER PUBLICATION pub_some SET (publish = 'insert, delete')
a| UPDATE few SET a = 'not published' WHERE id = 4
a| DELETE FROM few WHERE id = 4
a| COMMIT
a| DELETE FROM few
a| UPDATE other SET id = id + 10
""",
    "publications_loaded_for_an_older_transaction": """
CREATE TABLE few (id int PRIMARY KEY, a text);
CREATE TABLE kept (id int PRIMARY KEY, a text);
ALTER PUBLICATION pub_some ADD TABLE few;
ALTER PUBLICATION pub_list ADD TABLE kept;
---
a| INSERT INTO kept VALUES (1, 'kept')
a| BEGIN
a| INSERT INTO few VALUES (1, 'older')
b| ALTER PUBLICATION pub_some SET (publish = 'delete')
c| INSERT INTO kept VALUES (2, 'newer')
a| COMMIT
a| ALTER PUBLICATION pub_some SET (publish = 'insert, delete')
a| INSERT INTO few VALUES (2, 'last')
""",
    "unasked_publication_changed_behind_an_open_transaction": """
CREATE TABLE few (id int PRIMARY KEY, a text);
CREATE TABLE parent (id int PRIMARY KEY, a text) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF parent FOR VALUES FROM (0) TO (100);
ALTER PUBLICATION pub_some ADD TABLE few;
CREATE PUBLICATION unasked FOR TABLE few, parent;
---
a| ALTER PUBLICATION pub_list ADD TABLE parent
a| BEGIN
a| INSERT INTO few VALUES (1, 'older')
a| INSERT INTO low VALUES (1, 'older')
b| ALTER PUBLICATION unasked SET (publish = 'insert')
a| INSERT INTO few VALUES (2, 'by the row that another session loaded')
a| INSERT INTO low VALUES (2, 'by the row that another session loaded')
c| ALTER PUBLICATION pub_some SET (publish = 'delete')
c| ALTER PUBLICATION pub_list SET (publish_via_partition_root)
c| ALTER PUBLICATION pub_all SET (publish = 'delete')
d| INSERT INTO few VALUES (3, 'newer')
d| INSERT INTO low VALUES (3, 'newer')
a| INSERT INTO few VALUES (4, 'older')
a| INSERT INTO low VALUES (4, 'older')
a| COMMIT
a| ALTER PUBLICATION pub_all SET (publish = 'insert, update, delete, truncate')
a| ALTER PUBLICATION pub_some SET (publish = 'insert, delete')
a| ALTER PUBLICATION pub_list SET (publish_via_partition_root = false)
a| ALTER PUBLICATION pub_list DROP TABLE parent
a| DROP PUBLICATION unasked
a| INSERT INTO few VALUES (5, 'last')
""",
    "publication_seen_by_what_is_not_published": """
CREATE TABLE few (id int PRIMARY KEY, a text);
CREATE TABLE source (id int PRIMARY KEY, a text);
CREATE MATERIALIZED VIEW seen AS SELECT * FROM source;
CREATE UNIQUE INDEX ON seen (id);
ALTER PUBLICATION pub_some ADD TABLE few;
INSERT INTO source VALUES (1, 'one');
---
a| BEGIN
a| INSERT INTO few VALUES (1, 'older')
b| ALTER PUBLICATION pub_some SET (publish = 'delete')
c| REFRESH MATERIALIZED VIEW CONCURRENTLY seen
a| INSERT INTO few VALUES (2, 'older')
a| COMMIT
a| ALTER PUBLICATION pub_some SET (publish = 'insert, delete')
a| INSERT INTO few VALUES (3, 'last')
""",
    "publications_swap_names_behind_an_open_transaction": """
CREATE TABLE one (id int PRIMARY KEY, a text);
CREATE TABLE two (id int PRIMARY KEY, a text);
CREATE PUBLICATION spare FOR TABLE one, two;
---
a| BEGIN
a| INSERT INTO two VALUES (1, 'older, in the publication that will have the name')
b| BEGIN
b| ALTER PUBLICATION pub_some RENAME TO spared
b| ALTER PUBLICATION spare RENAME TO pub_some
b| COMMIT
c| INSERT INTO one VALUES (1, 'newer')
a| INSERT INTO two VALUES (2, 'older')
a| COMMIT
b| BEGIN
b| ALTER PUBLICATION pub_some RENAME TO spare
b| ALTER PUBLICATION spared RENAME TO pub_some
b| COMMIT
b| DROP PUBLICATION spare
c| INSERT INTO two VALUES (3, 'out')
""",
    "publication_under_its_later_name_behind_an_open_transaction": """
CREATE TABLE one (id int PRIMARY KEY, a text);
CREATE TABLE two (id int PRIMARY KEY, a text);
CREATE PUBLICATION reserve FOR TABLE one, two;
---
a| BEGIN
a| INSERT INTO two VALUES (1, 'before the row is read again')
b| ALTER PUBLICATION reserve SET (publish = 'insert')
a| INSERT INTO two VALUES (2, 'by the row of then, under the name of later')
b| BEGIN
b| ALTER PUBLICATION pub_some RENAME TO reserved
b| ALTER PUBLICATION reserve RENAME TO pub_some
b| COMMIT
b| ALTER PUBLICATION pub_some SET (publish = 'delete')
c| INSERT INTO one VALUES (1, 'newer')
a| INSERT INTO two VALUES (3, 'behind all of it')
a| COMMIT
b| BEGIN
b| ALTER PUBLICATION pub_some RENAME TO reserve
b| ALTER PUBLICATION reserved RENAME TO pub_some
b| COMMIT
b| DROP PUBLICATION reserve
c| INSERT INTO two VALUES (4, 'out')
""",
    "column_list_of_later_behind_an_open_transaction": """
CREATE TABLE one (id int PRIMARY KEY, a text, b int);
CREATE TABLE two (id int PRIMARY KEY);
---
a| ALTER PUBLICATION pub_list SET TABLES IN SCHEMA column_list_of_later_behind_an_open_transaction
a| BEGIN
a| INSERT INTO one VALUES (1, 'before the members are read again', 1)
b| ALTER PUBLICATION pub_some ADD TABLE two, TABLES IN SCHEMA public
a| INSERT INTO one VALUES (2, 'as of a schema, by the list that the table gets later', 2)
b| ALTER PUBLICATION pub_list SET TABLE one (id, b)
c| INSERT INTO one VALUES (3, 'newer', 3)
a| COMMIT
b| ALTER PUBLICATION pub_list DROP TABLE one
b| ALTER PUBLICATION pub_some DROP TABLE two, TABLES IN SCHEMA public
""",
    "root_renamed_behind_an_open_transaction": """
CREATE TABLE root (id int, a text) PARTITION BY LIST (id);
CREATE TABLE one PARTITION OF root FOR VALUES IN (1);
CREATE TABLE two PARTITION OF root FOR VALUES IN (2);
CREATE TABLE filler (id int);
---
b| ALTER PUBLICATION pub_some SET (publish_via_partition_root = true)
b| ALTER PUBLICATION pub_some ADD TABLE root
a| INSERT INTO one VALUES (1, 'the session knows the bounds of the partition now')
a| BEGIN
a| INSERT INTO filler VALUES (1)
b| ALTER PUBLICATION pub_some ADD TABLE filler
b| CREATE SCHEMA unrelated_to_root
a| INSERT INTO one VALUES (1, 'older')
b| ALTER TABLE root RENAME TO renamed
c| INSERT INTO two VALUES (2, 'newer')
a| COMMIT
b| ALTER PUBLICATION pub_some DROP TABLE renamed, filler
b| ALTER PUBLICATION pub_some SET (publish_via_partition_root = false)
""",
    "schemas_published_behind_an_open_transaction": """
CREATE TABLE one (id int PRIMARY KEY, a text);
CREATE TABLE two (id int PRIMARY KEY, a text);
---
a| BEGIN
a| INSERT INTO two VALUES (1, 'older')
b| ALTER PUBLICATION pub_list ADD TABLES IN SCHEMA CURRENT_SCHEMA
c| INSERT INTO one VALUES (1, 'newer')
a| COMMIT
b| ALTER PUBLICATION pub_list DROP TABLES IN SCHEMA CURRENT_SCHEMA
""",
    "parents_published_behind_an_open_transaction": """
CREATE TABLE parent (id int PRIMARY KEY, a text) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF parent FOR VALUES FROM (0) TO (100);
CREATE TABLE high PARTITION OF parent FOR VALUES FROM (100) TO (200);
---
a| BEGIN
a| INSERT INTO high VALUES (101, 'older')
b| ALTER PUBLICATION pub_list ADD TABLE parent
c| INSERT INTO low VALUES (1, 'newer')
a| COMMIT
b| ALTER PUBLICATION pub_list DROP TABLE parent
""",
}
