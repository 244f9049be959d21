"""Roles that apply without being superusers, as the owners of tables or as themselves: scripts 027 and 033."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from apply.scripts.script_runner import Applied, Script, place
from headwater.apply.target.grants import FUNCTIONS
from serving.service import wait_until

SPAN = "SELECT count(i), min(i), max(i) FROM alice.{}"
DEFINITIONS = (
    "CREATE SCHEMA alice AUTHORIZATION {0}_alice",
    "SET ROLE {0}_alice; CREATE TABLE alice.plain (i int); ALTER TABLE alice.plain REPLICA IDENTITY FULL",
    "SET ROLE {0}_alice; CREATE TABLE alice.parts (i int) PARTITION BY HASH (i); "
    "CREATE TABLE alice.parts_a PARTITION OF alice.parts FOR VALUES WITH (MODULUS 2, REMAINDER {1}); "
    "CREATE TABLE alice.parts_b PARTITION OF alice.parts FOR VALUES WITH (MODULUS 2, REMAINDER {2}); "
    + "; ".join(f"ALTER TABLE alice.{name} REPLICA IDENTITY FULL" for name in ("parts", "parts_a", "parts_b")),
)


class Rights:
    """A script with an owner of tables, and a role that applies."""

    def __init__(self, script: Script, flags: Sequence[str]) -> None:
        if script.major < 16:
            pytest.skip("subscriptions of 16 apply as the owners of tables")
        self.script, self.owner, self.role = script, f"{script.database}_alice", f"{script.database}_admin"
        script.everywhere(f"CREATE ROLE {self.owner}", f"CREATE ROLE {self.role} SUPERUSER LOGIN")
        script.on_source(*(text.format(script.database, 0, 1) for text in DEFINITIONS))
        script.on_target(*(text.format(script.database, 1, 0) for text in DEFINITIONS))
        script.on_source("CREATE PUBLICATION p FOR TABLE alice.plain, alice.parts WITH (publish_via_partition_root)")
        own = [f"GRANT EXECUTE ON FUNCTION {', '.join(FUNCTIONS)} TO {self.role}"]
        own += [f"GRANT SET ON PARAMETER session_replication_role TO {self.role}"]
        own += [
            f"GRANT CREATE ON DATABASE {script.database} TO {self.role}",
            f"GRANT USAGE ON SCHEMA alice TO {self.role}",
        ]
        script.on_target(*own)
        to = place(script.servers.target, script.database, self.role)
        self.applied: Applied = script.subscribe("p", flags=["--to", to, *flags])

    def sees(self, expected: str, table: str = "plain") -> None:
        """Require that all comes, and what the table has then."""
        self.script.catch_up()
        assert self.script.rows(SPAN.format(table)) == [expected]

    def fails(self, text: str, expected: str) -> None:
        """Require that it fails, and what the table has meanwhile."""
        self.applied.errors.clear()
        wait_until(lambda: self.applied.has_met(text))
        assert self.script.rows(SPAN.format("plain")) == [expected]

    def target(self, *statements: str) -> None:
        """Run statements on the target, in which OWNER and ROLE stand for both."""
        self.script.on_target(*(text.replace("OWNER", self.owner).replace("ROLE!", self.role) for text in statements))


FIRST = ("INSERT INTO alice.plain VALUES (1), (3), (5)", "UPDATE alice.plain SET i = 7 WHERE i = 1")


def test_027_as_the_owners_of_tables(script: Script) -> None:
    rights = Rights(script, [])
    script.on_source(*FIRST, "DELETE FROM alice.plain WHERE i = 3")
    rights.sees("2|5|7")
    rights.target("ALTER ROLE ROLE! NOSUPERUSER")
    script.on_source("UPDATE alice.plain SET i = 9 WHERE i = 5")
    script.applied["sub"].stop()
    rights.applied.start()
    rights.fails(f'role "{rights.role}" cannot SET ROLE to "{rights.owner}"', "2|5|7")
    rights.target("GRANT OWNER TO ROLE!")
    rights.sees("2|7|9")
    script.on_source("INSERT INTO alice.plain VALUES (11)", "UPDATE alice.plain SET i = 13 WHERE i = 7")
    script.on_source("DELETE FROM alice.plain WHERE i = 9")
    rights.sees("2|11|13")
    script.on_source(
        "INSERT INTO alice.parts VALUES (101), (102), (103)", "UPDATE alice.parts SET i = 120 WHERE i = 102"
    )
    script.on_source("DELETE FROM alice.parts WHERE i = 101")
    rights.sees("2|103|120", "parts")
    rights.target("ALTER TABLE alice.plain ENABLE ROW LEVEL SECURITY; ALTER TABLE alice.plain FORCE ROW LEVEL SECURITY")
    script.on_source("INSERT INTO alice.plain VALUES (15)")
    rights.fails("cannot replicate into relation with row-level security enabled", "2|11|13")
    rights.target("ALTER TABLE alice.plain NO FORCE ROW LEVEL SECURITY")
    rights.sees("3|11|15")
    rights.target("REVOKE SELECT, INSERT ON alice.plain FROM OWNER")
    script.on_source("INSERT INTO alice.plain VALUES (19)")
    rights.fails("permission denied for table plain", "3|11|15")
    rights.target("GRANT INSERT ON alice.plain TO OWNER")
    rights.sees("4|11|19")
    rights.target("REVOKE UPDATE, DELETE ON alice.plain FROM OWNER")
    script.on_source("UPDATE alice.plain SET i = 21 WHERE i = 13", "DELETE FROM alice.plain WHERE i = 15")
    rights.fails("permission denied for table plain", "4|11|19")
    rights.target("GRANT UPDATE, DELETE ON alice.plain TO OWNER")
    rights.fails("permission denied for table plain", "4|11|19")
    rights.target("GRANT SELECT ON alice.plain TO OWNER")
    rights.sees("3|11|21")


def test_033_as_the_role_itself(script: Script) -> None:
    rights = Rights(script, ["--run-as-owner", "on"])
    script.on_source(*FIRST, "DELETE FROM alice.plain WHERE i = 3")
    rights.sees("2|5|7")
    rights.target("ALTER ROLE ROLE! NOSUPERUSER")
    rights.applied.stop()
    rights.applied.start()
    script.on_source("INSERT INTO alice.plain VALUES (9)")
    rights.fails("permission denied for table plain", "2|5|7")
    rights.target("GRANT INSERT, UPDATE, DELETE ON alice.plain TO ROLE!")
    rights.sees("3|5|9")
    script.on_source("UPDATE alice.plain SET i = 11 WHERE i = 5", "DELETE FROM alice.plain WHERE i = 9")
    rights.fails("permission denied for table plain", "3|5|9")
    rights.target("GRANT SELECT ON alice.plain TO ROLE!")
    rights.sees("2|7|11")
    rights.target("REVOKE ALL ON alice.plain FROM ROLE!", "GRANT OWNER TO ROLE! WITH INHERIT FALSE, SET TRUE")
    script.on_source("INSERT INTO alice.plain VALUES (13)")
    rights.fails("permission denied for table plain", "2|7|11")
    rights.target("GRANT OWNER TO ROLE! WITH INHERIT TRUE, SET FALSE")
    rights.sees("3|7|13")
    rights.target("GRANT OWNER TO ROLE! WITH INHERIT FALSE, SET TRUE")
    script.on_source("INSERT INTO alice.plain VALUES (14)")
    rights.fails("permission denied for table plain", "3|7|13")
    script.alter("sub", "run-as-owner=off")
    rights.sees("4|7|14")
