"""Columns of the catalogs that decoding reads, per major version.

A column is three words: name, attlen, attalign; ``?`` after them marks one of fixed length that may be NULL.
Generated from PostgreSQL 14, 15, 16, 17, 18, 19 by tools/generate_catalog_columns.py, do not edit.
PostgreSQL: ``postgres.bki`` (made from ``src/include/catalog/*.h`` by genbki.pl).
"""

from __future__ import annotations

COLUMNS: dict[int, dict[str, str]] = {
    14: {
        "pg_am": ("oid 4 i, amname 64 c, amhandler 4 i, amtype 1 c "),
        "pg_attrdef": ("oid 4 i, adrelid 4 i, adnum 2 s, adbin -1 i "),
        "pg_attribute": (
            "attrelid 4 i, attname 64 c, atttypid 4 i, attstattarget 4 i, attlen 2 s, attnum 2 s, attndims 4 i, "
            "attcacheoff 4 i, atttypmod 4 i, attbyval 1 c, attalign 1 c, attstorage 1 c, attcompression 1 c, "
            "attnotnull 1 c, atthasdef 1 c, atthasmissing 1 c, attidentity 1 c, attgenerated 1 c, attisdropped 1 "
            "c, attislocal 1 c, attinhcount 4 i, attcollation 4 i, attacl -1 i, attoptions -1 i, attfdwoptions -1 "
            "i, attmissingval -1 d "
        ),
        "pg_authid": (
            "oid 4 i, rolname 64 c, rolsuper 1 c, rolinherit 1 c, rolcreaterole 1 c, rolcreatedb 1 c, rolcanlogin "
            "1 c, rolreplication 1 c, rolbypassrls 1 c, rolconnlimit 4 i, rolpassword -1 i, rolvaliduntil 8 d "
        ),
        "pg_class": (
            "oid 4 i, relname 64 c, relnamespace 4 i, reltype 4 i, reloftype 4 i, relowner 4 i, relam 4 i, "
            "relfilenode 4 i, reltablespace 4 i, relpages 4 i, reltuples 4 i, relallvisible 4 i, reltoastrelid 4 "
            "i, relhasindex 1 c, relisshared 1 c, relpersistence 1 c, relkind 1 c, relnatts 2 s, relchecks 2 s, "
            "relhasrules 1 c, relhastriggers 1 c, relhassubclass 1 c, relrowsecurity 1 c, relforcerowsecurity 1 "
            "c, relispopulated 1 c, relreplident 1 c, relispartition 1 c, relrewrite 4 i, relfrozenxid 4 i, "
            "relminmxid 4 i, relacl -1 i, reloptions -1 i, relpartbound -1 i "
        ),
        "pg_collation": (
            "oid 4 i, collname 64 c, collnamespace 4 i, collowner 4 i, collprovider 1 c, collisdeterministic 1 c, "
            "collencoding 4 i, collcollate 64 c, collctype 64 c, collversion -1 i "
        ),
        "pg_constraint": (
            "oid 4 i, conname 64 c, connamespace 4 i, contype 1 c, condeferrable 1 c, condeferred 1 c, "
            "convalidated 1 c, conrelid 4 i, contypid 4 i, conindid 4 i, conparentid 4 i, confrelid 4 i, "
            "confupdtype 1 c, confdeltype 1 c, confmatchtype 1 c, conislocal 1 c, coninhcount 4 i, connoinherit 1 "
            "c, conkey -1 i, confkey -1 i, conpfeqop -1 i, conppeqop -1 i, conffeqop -1 i, conexclop -1 i, conbin "
            "-1 i "
        ),
        "pg_database": (
            "oid 4 i, datname 64 c, datdba 4 i, encoding 4 i, datcollate 64 c, datctype 64 c, datistemplate 1 c, "
            "datallowconn 1 c, datconnlimit 4 i, datlastsysoid 4 i, datfrozenxid 4 i, datminmxid 4 i, "
            "dattablespace 4 i, datacl -1 i "
        ),
        "pg_depend": (
            "classid 4 i, objid 4 i, objsubid 4 i, refclassid 4 i, refobjid 4 i, refobjsubid 4 i, deptype 1 c "
        ),
        "pg_description": ("objoid 4 i, classoid 4 i, objsubid 4 i, description -1 i "),
        "pg_enum": ("oid 4 i, enumtypid 4 i, enumsortorder 4 i, enumlabel 64 c "),
        "pg_event_trigger": (
            "oid 4 i, evtname 64 c, evtevent 64 c, evtowner 4 i, evtfoid 4 i, evtenabled 1 c, evttags -1 i "
        ),
        "pg_extension": (
            "oid 4 i, extname 64 c, extowner 4 i, extnamespace 4 i, extrelocatable 1 c, extversion -1 i, "
            "extconfig -1 i, extcondition -1 i "
        ),
        "pg_index": (
            "indexrelid 4 i, indrelid 4 i, indnatts 2 s, indnkeyatts 2 s, indisunique 1 c, indisprimary 1 c, "
            "indisexclusion 1 c, indimmediate 1 c, indisclustered 1 c, indisvalid 1 c, indcheckxmin 1 c, "
            "indisready 1 c, indislive 1 c, indisreplident 1 c, indkey -1 i, indcollation -1 i, indclass -1 i, "
            "indoption -1 i, indexprs -1 i, indpred -1 i "
        ),
        "pg_inherits": ("inhrelid 4 i, inhparent 4 i, inhseqno 4 i, inhdetachpending 1 c "),
        "pg_namespace": ("oid 4 i, nspname 64 c, nspowner 4 i, nspacl -1 i "),
        "pg_opclass": (
            "oid 4 i, opcmethod 4 i, opcname 64 c, opcnamespace 4 i, opcowner 4 i, opcfamily 4 i, opcintype 4 i, "
            "opcdefault 1 c, opckeytype 4 i "
        ),
        "pg_operator": (
            "oid 4 i, oprname 64 c, oprnamespace 4 i, oprowner 4 i, oprkind 1 c, oprcanmerge 1 c, oprcanhash 1 c, "
            "oprleft 4 i, oprright 4 i, oprresult 4 i, oprcom 4 i, oprnegate 4 i, oprcode 4 i, oprrest 4 i, "
            "oprjoin 4 i "
        ),
        "pg_partitioned_table": (
            "partrelid 4 i, partstrat 1 c, partnatts 2 s, partdefid 4 i, partattrs -1 i, partclass -1 i, "
            "partcollation -1 i, partexprs -1 i "
        ),
        "pg_policy": (
            "oid 4 i, polname 64 c, polrelid 4 i, polcmd 1 c, polpermissive 1 c, polroles -1 i, polqual -1 i, "
            "polwithcheck -1 i "
        ),
        "pg_proc": (
            "oid 4 i, proname 64 c, pronamespace 4 i, proowner 4 i, prolang 4 i, procost 4 i, prorows 4 i, "
            "provariadic 4 i, prosupport 4 i, prokind 1 c, prosecdef 1 c, proleakproof 1 c, proisstrict 1 c, "
            "proretset 1 c, provolatile 1 c, proparallel 1 c, pronargs 2 s, pronargdefaults 2 s, prorettype 4 i, "
            "proargtypes -1 i, proallargtypes -1 i, proargmodes -1 i, proargnames -1 i, proargdefaults -1 i, "
            "protrftypes -1 i, prosrc -1 i, probin -1 i, prosqlbody -1 i, proconfig -1 i, proacl -1 i "
        ),
        "pg_publication": (
            "oid 4 i, pubname 64 c, pubowner 4 i, puballtables 1 c, pubinsert 1 c, pubupdate 1 c, pubdelete 1 c, "
            "pubtruncate 1 c, pubviaroot 1 c "
        ),
        "pg_publication_rel": ("oid 4 i, prpubid 4 i, prrelid 4 i "),
        "pg_range": (
            "rngtypid 4 i, rngsubtype 4 i, rngmultitypid 4 i, rngcollation 4 i, rngsubopc 4 i, rngcanonical 4 i, "
            "rngsubdiff 4 i "
        ),
        "pg_replication_origin": ("roident 4 i, roname -1 i "),
        "pg_rewrite": (
            "oid 4 i, rulename 64 c, ev_class 4 i, ev_type 1 c, ev_enabled 1 c, is_instead 1 c, ev_qual -1 i, "
            "ev_action -1 i "
        ),
        "pg_sequence": (
            "seqrelid 4 i, seqtypid 4 i, seqstart 8 d, seqincrement 8 d, seqmax 8 d, seqmin 8 d, seqcache 8 d, "
            "seqcycle 1 c "
        ),
        "pg_statistic_ext": (
            "oid 4 i, stxrelid 4 i, stxname 64 c, stxnamespace 4 i, stxowner 4 i, stxstattarget 4 i, stxkeys -1 "
            "i, stxkind -1 i, stxexprs -1 i "
        ),
        "pg_tablespace": ("oid 4 i, spcname 64 c, spcowner 4 i, spcacl -1 i, spcoptions -1 i "),
        "pg_trigger": (
            "oid 4 i, tgrelid 4 i, tgparentid 4 i, tgname 64 c, tgfoid 4 i, tgtype 2 s, tgenabled 1 c, "
            "tgisinternal 1 c, tgconstrrelid 4 i, tgconstrindid 4 i, tgconstraint 4 i, tgdeferrable 1 c, "
            "tginitdeferred 1 c, tgnargs 2 s, tgattr -1 i, tgargs -1 i, tgqual -1 i, tgoldtable 64 c, tgnewtable "
            "64 c "
        ),
        "pg_ts_config": ("oid 4 i, cfgname 64 c, cfgnamespace 4 i, cfgowner 4 i, cfgparser 4 i "),
        "pg_ts_dict": (
            "oid 4 i, dictname 64 c, dictnamespace 4 i, dictowner 4 i, dicttemplate 4 i, dictinitoption -1 i "
        ),
        "pg_type": (
            "oid 4 i, typname 64 c, typnamespace 4 i, typowner 4 i, typlen 2 s, typbyval 1 c, typtype 1 c, "
            "typcategory 1 c, typispreferred 1 c, typisdefined 1 c, typdelim 1 c, typrelid 4 i, typsubscript 4 i, "
            "typelem 4 i, typarray 4 i, typinput 4 i, typoutput 4 i, typreceive 4 i, typsend 4 i, typmodin 4 i, "
            "typmodout 4 i, typanalyze 4 i, typalign 1 c, typstorage 1 c, typnotnull 1 c, typbasetype 4 i, "
            "typtypmod 4 i, typndims 4 i, typcollation 4 i, typdefaultbin -1 i, typdefault -1 i, typacl -1 i "
        ),
        "pg_toast_2604": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2606": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2609": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_3350": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
    },
    15: {
        "pg_am": ("oid 4 i, amname 64 c, amhandler 4 i, amtype 1 c "),
        "pg_attrdef": ("oid 4 i, adrelid 4 i, adnum 2 s, adbin -1 i "),
        "pg_attribute": (
            "attrelid 4 i, attname 64 c, atttypid 4 i, attstattarget 4 i, attlen 2 s, attnum 2 s, attndims 4 i, "
            "attcacheoff 4 i, atttypmod 4 i, attbyval 1 c, attalign 1 c, attstorage 1 c, attcompression 1 c, "
            "attnotnull 1 c, atthasdef 1 c, atthasmissing 1 c, attidentity 1 c, attgenerated 1 c, attisdropped 1 "
            "c, attislocal 1 c, attinhcount 4 i, attcollation 4 i, attacl -1 i, attoptions -1 i, attfdwoptions -1 "
            "i, attmissingval -1 d "
        ),
        "pg_authid": (
            "oid 4 i, rolname 64 c, rolsuper 1 c, rolinherit 1 c, rolcreaterole 1 c, rolcreatedb 1 c, rolcanlogin "
            "1 c, rolreplication 1 c, rolbypassrls 1 c, rolconnlimit 4 i, rolpassword -1 i, rolvaliduntil 8 d "
        ),
        "pg_class": (
            "oid 4 i, relname 64 c, relnamespace 4 i, reltype 4 i, reloftype 4 i, relowner 4 i, relam 4 i, "
            "relfilenode 4 i, reltablespace 4 i, relpages 4 i, reltuples 4 i, relallvisible 4 i, reltoastrelid 4 "
            "i, relhasindex 1 c, relisshared 1 c, relpersistence 1 c, relkind 1 c, relnatts 2 s, relchecks 2 s, "
            "relhasrules 1 c, relhastriggers 1 c, relhassubclass 1 c, relrowsecurity 1 c, relforcerowsecurity 1 "
            "c, relispopulated 1 c, relreplident 1 c, relispartition 1 c, relrewrite 4 i, relfrozenxid 4 i, "
            "relminmxid 4 i, relacl -1 i, reloptions -1 i, relpartbound -1 i "
        ),
        "pg_collation": (
            "oid 4 i, collname 64 c, collnamespace 4 i, collowner 4 i, collprovider 1 c, collisdeterministic 1 c, "
            "collencoding 4 i, collcollate -1 i, collctype -1 i, colliculocale -1 i, collversion -1 i "
        ),
        "pg_constraint": (
            "oid 4 i, conname 64 c, connamespace 4 i, contype 1 c, condeferrable 1 c, condeferred 1 c, "
            "convalidated 1 c, conrelid 4 i, contypid 4 i, conindid 4 i, conparentid 4 i, confrelid 4 i, "
            "confupdtype 1 c, confdeltype 1 c, confmatchtype 1 c, conislocal 1 c, coninhcount 4 i, connoinherit 1 "
            "c, conkey -1 i, confkey -1 i, conpfeqop -1 i, conppeqop -1 i, conffeqop -1 i, confdelsetcols -1 i, "
            "conexclop -1 i, conbin -1 i "
        ),
        "pg_database": (
            "oid 4 i, datname 64 c, datdba 4 i, encoding 4 i, datlocprovider 1 c, datistemplate 1 c, datallowconn "
            "1 c, datconnlimit 4 i, datfrozenxid 4 i, datminmxid 4 i, dattablespace 4 i, datcollate -1 i, "
            "datctype -1 i, daticulocale -1 i, datcollversion -1 i, datacl -1 i "
        ),
        "pg_depend": (
            "classid 4 i, objid 4 i, objsubid 4 i, refclassid 4 i, refobjid 4 i, refobjsubid 4 i, deptype 1 c "
        ),
        "pg_description": ("objoid 4 i, classoid 4 i, objsubid 4 i, description -1 i "),
        "pg_enum": ("oid 4 i, enumtypid 4 i, enumsortorder 4 i, enumlabel 64 c "),
        "pg_event_trigger": (
            "oid 4 i, evtname 64 c, evtevent 64 c, evtowner 4 i, evtfoid 4 i, evtenabled 1 c, evttags -1 i "
        ),
        "pg_extension": (
            "oid 4 i, extname 64 c, extowner 4 i, extnamespace 4 i, extrelocatable 1 c, extversion -1 i, "
            "extconfig -1 i, extcondition -1 i "
        ),
        "pg_index": (
            "indexrelid 4 i, indrelid 4 i, indnatts 2 s, indnkeyatts 2 s, indisunique 1 c, indnullsnotdistinct 1 "
            "c, indisprimary 1 c, indisexclusion 1 c, indimmediate 1 c, indisclustered 1 c, indisvalid 1 c, "
            "indcheckxmin 1 c, indisready 1 c, indislive 1 c, indisreplident 1 c, indkey -1 i, indcollation -1 i, "
            "indclass -1 i, indoption -1 i, indexprs -1 i, indpred -1 i "
        ),
        "pg_inherits": ("inhrelid 4 i, inhparent 4 i, inhseqno 4 i, inhdetachpending 1 c "),
        "pg_namespace": ("oid 4 i, nspname 64 c, nspowner 4 i, nspacl -1 i "),
        "pg_opclass": (
            "oid 4 i, opcmethod 4 i, opcname 64 c, opcnamespace 4 i, opcowner 4 i, opcfamily 4 i, opcintype 4 i, "
            "opcdefault 1 c, opckeytype 4 i "
        ),
        "pg_operator": (
            "oid 4 i, oprname 64 c, oprnamespace 4 i, oprowner 4 i, oprkind 1 c, oprcanmerge 1 c, oprcanhash 1 c, "
            "oprleft 4 i, oprright 4 i, oprresult 4 i, oprcom 4 i, oprnegate 4 i, oprcode 4 i, oprrest 4 i, "
            "oprjoin 4 i "
        ),
        "pg_partitioned_table": (
            "partrelid 4 i, partstrat 1 c, partnatts 2 s, partdefid 4 i, partattrs -1 i, partclass -1 i, "
            "partcollation -1 i, partexprs -1 i "
        ),
        "pg_policy": (
            "oid 4 i, polname 64 c, polrelid 4 i, polcmd 1 c, polpermissive 1 c, polroles -1 i, polqual -1 i, "
            "polwithcheck -1 i "
        ),
        "pg_proc": (
            "oid 4 i, proname 64 c, pronamespace 4 i, proowner 4 i, prolang 4 i, procost 4 i, prorows 4 i, "
            "provariadic 4 i, prosupport 4 i, prokind 1 c, prosecdef 1 c, proleakproof 1 c, proisstrict 1 c, "
            "proretset 1 c, provolatile 1 c, proparallel 1 c, pronargs 2 s, pronargdefaults 2 s, prorettype 4 i, "
            "proargtypes -1 i, proallargtypes -1 i, proargmodes -1 i, proargnames -1 i, proargdefaults -1 i, "
            "protrftypes -1 i, prosrc -1 i, probin -1 i, prosqlbody -1 i, proconfig -1 i, proacl -1 i "
        ),
        "pg_publication": (
            "oid 4 i, pubname 64 c, pubowner 4 i, puballtables 1 c, pubinsert 1 c, pubupdate 1 c, pubdelete 1 c, "
            "pubtruncate 1 c, pubviaroot 1 c "
        ),
        "pg_publication_namespace": ("oid 4 i, pnpubid 4 i, pnnspid 4 i "),
        "pg_publication_rel": ("oid 4 i, prpubid 4 i, prrelid 4 i, prqual -1 i, prattrs -1 i "),
        "pg_range": (
            "rngtypid 4 i, rngsubtype 4 i, rngmultitypid 4 i, rngcollation 4 i, rngsubopc 4 i, rngcanonical 4 i, "
            "rngsubdiff 4 i "
        ),
        "pg_replication_origin": ("roident 4 i, roname -1 i "),
        "pg_rewrite": (
            "oid 4 i, rulename 64 c, ev_class 4 i, ev_type 1 c, ev_enabled 1 c, is_instead 1 c, ev_qual -1 i, "
            "ev_action -1 i "
        ),
        "pg_sequence": (
            "seqrelid 4 i, seqtypid 4 i, seqstart 8 d, seqincrement 8 d, seqmax 8 d, seqmin 8 d, seqcache 8 d, "
            "seqcycle 1 c "
        ),
        "pg_statistic_ext": (
            "oid 4 i, stxrelid 4 i, stxname 64 c, stxnamespace 4 i, stxowner 4 i, stxstattarget 4 i, stxkeys -1 "
            "i, stxkind -1 i, stxexprs -1 i "
        ),
        "pg_tablespace": ("oid 4 i, spcname 64 c, spcowner 4 i, spcacl -1 i, spcoptions -1 i "),
        "pg_trigger": (
            "oid 4 i, tgrelid 4 i, tgparentid 4 i, tgname 64 c, tgfoid 4 i, tgtype 2 s, tgenabled 1 c, "
            "tgisinternal 1 c, tgconstrrelid 4 i, tgconstrindid 4 i, tgconstraint 4 i, tgdeferrable 1 c, "
            "tginitdeferred 1 c, tgnargs 2 s, tgattr -1 i, tgargs -1 i, tgqual -1 i, tgoldtable 64 c, tgnewtable "
            "64 c "
        ),
        "pg_ts_config": ("oid 4 i, cfgname 64 c, cfgnamespace 4 i, cfgowner 4 i, cfgparser 4 i "),
        "pg_ts_dict": (
            "oid 4 i, dictname 64 c, dictnamespace 4 i, dictowner 4 i, dicttemplate 4 i, dictinitoption -1 i "
        ),
        "pg_type": (
            "oid 4 i, typname 64 c, typnamespace 4 i, typowner 4 i, typlen 2 s, typbyval 1 c, typtype 1 c, "
            "typcategory 1 c, typispreferred 1 c, typisdefined 1 c, typdelim 1 c, typrelid 4 i, typsubscript 4 i, "
            "typelem 4 i, typarray 4 i, typinput 4 i, typoutput 4 i, typreceive 4 i, typsend 4 i, typmodin 4 i, "
            "typmodout 4 i, typanalyze 4 i, typalign 1 c, typstorage 1 c, typnotnull 1 c, typbasetype 4 i, "
            "typtypmod 4 i, typndims 4 i, typcollation 4 i, typdefaultbin -1 i, typdefault -1 i, typacl -1 i "
        ),
        "pg_toast_2604": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2606": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2609": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_3350": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_6106": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
    },
    16: {
        "pg_am": ("oid 4 i, amname 64 c, amhandler 4 i, amtype 1 c "),
        "pg_attrdef": ("oid 4 i, adrelid 4 i, adnum 2 s, adbin -1 i "),
        "pg_attribute": (
            "attrelid 4 i, attname 64 c, atttypid 4 i, attlen 2 s, attnum 2 s, attcacheoff 4 i, atttypmod 4 i, "
            "attndims 2 s, attbyval 1 c, attalign 1 c, attstorage 1 c, attcompression 1 c, attnotnull 1 c, "
            "atthasdef 1 c, atthasmissing 1 c, attidentity 1 c, attgenerated 1 c, attisdropped 1 c, attislocal 1 "
            "c, attinhcount 2 s, attstattarget 2 s, attcollation 4 i, attacl -1 d, attoptions -1 i, attfdwoptions "
            "-1 i, attmissingval -1 d "
        ),
        "pg_authid": (
            "oid 4 i, rolname 64 c, rolsuper 1 c, rolinherit 1 c, rolcreaterole 1 c, rolcreatedb 1 c, rolcanlogin "
            "1 c, rolreplication 1 c, rolbypassrls 1 c, rolconnlimit 4 i, rolpassword -1 i, rolvaliduntil 8 d "
        ),
        "pg_class": (
            "oid 4 i, relname 64 c, relnamespace 4 i, reltype 4 i, reloftype 4 i, relowner 4 i, relam 4 i, "
            "relfilenode 4 i, reltablespace 4 i, relpages 4 i, reltuples 4 i, relallvisible 4 i, reltoastrelid 4 "
            "i, relhasindex 1 c, relisshared 1 c, relpersistence 1 c, relkind 1 c, relnatts 2 s, relchecks 2 s, "
            "relhasrules 1 c, relhastriggers 1 c, relhassubclass 1 c, relrowsecurity 1 c, relforcerowsecurity 1 "
            "c, relispopulated 1 c, relreplident 1 c, relispartition 1 c, relrewrite 4 i, relfrozenxid 4 i, "
            "relminmxid 4 i, relacl -1 d, reloptions -1 i, relpartbound -1 i "
        ),
        "pg_collation": (
            "oid 4 i, collname 64 c, collnamespace 4 i, collowner 4 i, collprovider 1 c, collisdeterministic 1 c, "
            "collencoding 4 i, collcollate -1 i, collctype -1 i, colliculocale -1 i, collicurules -1 i, "
            "collversion -1 i "
        ),
        "pg_constraint": (
            "oid 4 i, conname 64 c, connamespace 4 i, contype 1 c, condeferrable 1 c, condeferred 1 c, "
            "convalidated 1 c, conrelid 4 i, contypid 4 i, conindid 4 i, conparentid 4 i, confrelid 4 i, "
            "confupdtype 1 c, confdeltype 1 c, confmatchtype 1 c, conislocal 1 c, coninhcount 2 s, connoinherit 1 "
            "c, conkey -1 i, confkey -1 i, conpfeqop -1 i, conppeqop -1 i, conffeqop -1 i, confdelsetcols -1 i, "
            "conexclop -1 i, conbin -1 i "
        ),
        "pg_database": (
            "oid 4 i, datname 64 c, datdba 4 i, encoding 4 i, datlocprovider 1 c, datistemplate 1 c, datallowconn "
            "1 c, datconnlimit 4 i, datfrozenxid 4 i, datminmxid 4 i, dattablespace 4 i, datcollate -1 i, "
            "datctype -1 i, daticulocale -1 i, daticurules -1 i, datcollversion -1 i, datacl -1 d "
        ),
        "pg_depend": (
            "classid 4 i, objid 4 i, objsubid 4 i, refclassid 4 i, refobjid 4 i, refobjsubid 4 i, deptype 1 c "
        ),
        "pg_description": ("objoid 4 i, classoid 4 i, objsubid 4 i, description -1 i "),
        "pg_enum": ("oid 4 i, enumtypid 4 i, enumsortorder 4 i, enumlabel 64 c "),
        "pg_event_trigger": (
            "oid 4 i, evtname 64 c, evtevent 64 c, evtowner 4 i, evtfoid 4 i, evtenabled 1 c, evttags -1 i "
        ),
        "pg_extension": (
            "oid 4 i, extname 64 c, extowner 4 i, extnamespace 4 i, extrelocatable 1 c, extversion -1 i, "
            "extconfig -1 i, extcondition -1 i "
        ),
        "pg_index": (
            "indexrelid 4 i, indrelid 4 i, indnatts 2 s, indnkeyatts 2 s, indisunique 1 c, indnullsnotdistinct 1 "
            "c, indisprimary 1 c, indisexclusion 1 c, indimmediate 1 c, indisclustered 1 c, indisvalid 1 c, "
            "indcheckxmin 1 c, indisready 1 c, indislive 1 c, indisreplident 1 c, indkey -1 i, indcollation -1 i, "
            "indclass -1 i, indoption -1 i, indexprs -1 i, indpred -1 i "
        ),
        "pg_inherits": ("inhrelid 4 i, inhparent 4 i, inhseqno 4 i, inhdetachpending 1 c "),
        "pg_namespace": ("oid 4 i, nspname 64 c, nspowner 4 i, nspacl -1 d "),
        "pg_opclass": (
            "oid 4 i, opcmethod 4 i, opcname 64 c, opcnamespace 4 i, opcowner 4 i, opcfamily 4 i, opcintype 4 i, "
            "opcdefault 1 c, opckeytype 4 i "
        ),
        "pg_operator": (
            "oid 4 i, oprname 64 c, oprnamespace 4 i, oprowner 4 i, oprkind 1 c, oprcanmerge 1 c, oprcanhash 1 c, "
            "oprleft 4 i, oprright 4 i, oprresult 4 i, oprcom 4 i, oprnegate 4 i, oprcode 4 i, oprrest 4 i, "
            "oprjoin 4 i "
        ),
        "pg_partitioned_table": (
            "partrelid 4 i, partstrat 1 c, partnatts 2 s, partdefid 4 i, partattrs -1 i, partclass -1 i, "
            "partcollation -1 i, partexprs -1 i "
        ),
        "pg_policy": (
            "oid 4 i, polname 64 c, polrelid 4 i, polcmd 1 c, polpermissive 1 c, polroles -1 i, polqual -1 i, "
            "polwithcheck -1 i "
        ),
        "pg_proc": (
            "oid 4 i, proname 64 c, pronamespace 4 i, proowner 4 i, prolang 4 i, procost 4 i, prorows 4 i, "
            "provariadic 4 i, prosupport 4 i, prokind 1 c, prosecdef 1 c, proleakproof 1 c, proisstrict 1 c, "
            "proretset 1 c, provolatile 1 c, proparallel 1 c, pronargs 2 s, pronargdefaults 2 s, prorettype 4 i, "
            "proargtypes -1 i, proallargtypes -1 i, proargmodes -1 i, proargnames -1 i, proargdefaults -1 i, "
            "protrftypes -1 i, prosrc -1 i, probin -1 i, prosqlbody -1 i, proconfig -1 i, proacl -1 d "
        ),
        "pg_publication": (
            "oid 4 i, pubname 64 c, pubowner 4 i, puballtables 1 c, pubinsert 1 c, pubupdate 1 c, pubdelete 1 c, "
            "pubtruncate 1 c, pubviaroot 1 c "
        ),
        "pg_publication_namespace": ("oid 4 i, pnpubid 4 i, pnnspid 4 i "),
        "pg_publication_rel": ("oid 4 i, prpubid 4 i, prrelid 4 i, prqual -1 i, prattrs -1 i "),
        "pg_range": (
            "rngtypid 4 i, rngsubtype 4 i, rngmultitypid 4 i, rngcollation 4 i, rngsubopc 4 i, rngcanonical 4 i, "
            "rngsubdiff 4 i "
        ),
        "pg_replication_origin": ("roident 4 i, roname -1 i "),
        "pg_rewrite": (
            "oid 4 i, rulename 64 c, ev_class 4 i, ev_type 1 c, ev_enabled 1 c, is_instead 1 c, ev_qual -1 i, "
            "ev_action -1 i "
        ),
        "pg_sequence": (
            "seqrelid 4 i, seqtypid 4 i, seqstart 8 d, seqincrement 8 d, seqmax 8 d, seqmin 8 d, seqcache 8 d, "
            "seqcycle 1 c "
        ),
        "pg_statistic_ext": (
            "oid 4 i, stxrelid 4 i, stxname 64 c, stxnamespace 4 i, stxowner 4 i, stxstattarget 4 i, stxkeys -1 "
            "i, stxkind -1 i, stxexprs -1 i "
        ),
        "pg_tablespace": ("oid 4 i, spcname 64 c, spcowner 4 i, spcacl -1 d, spcoptions -1 i "),
        "pg_trigger": (
            "oid 4 i, tgrelid 4 i, tgparentid 4 i, tgname 64 c, tgfoid 4 i, tgtype 2 s, tgenabled 1 c, "
            "tgisinternal 1 c, tgconstrrelid 4 i, tgconstrindid 4 i, tgconstraint 4 i, tgdeferrable 1 c, "
            "tginitdeferred 1 c, tgnargs 2 s, tgattr -1 i, tgargs -1 i, tgqual -1 i, tgoldtable 64 c, tgnewtable "
            "64 c "
        ),
        "pg_ts_config": ("oid 4 i, cfgname 64 c, cfgnamespace 4 i, cfgowner 4 i, cfgparser 4 i "),
        "pg_ts_dict": (
            "oid 4 i, dictname 64 c, dictnamespace 4 i, dictowner 4 i, dicttemplate 4 i, dictinitoption -1 i "
        ),
        "pg_type": (
            "oid 4 i, typname 64 c, typnamespace 4 i, typowner 4 i, typlen 2 s, typbyval 1 c, typtype 1 c, "
            "typcategory 1 c, typispreferred 1 c, typisdefined 1 c, typdelim 1 c, typrelid 4 i, typsubscript 4 i, "
            "typelem 4 i, typarray 4 i, typinput 4 i, typoutput 4 i, typreceive 4 i, typsend 4 i, typmodin 4 i, "
            "typmodout 4 i, typanalyze 4 i, typalign 1 c, typstorage 1 c, typnotnull 1 c, typbasetype 4 i, "
            "typtypmod 4 i, typndims 4 i, typcollation 4 i, typdefaultbin -1 i, typdefault -1 i, typacl -1 d "
        ),
        "pg_toast_2604": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2606": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2609": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_3350": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_6106": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
    },
    17: {
        "pg_am": ("oid 4 i, amname 64 c, amhandler 4 i, amtype 1 c "),
        "pg_attrdef": ("oid 4 i, adrelid 4 i, adnum 2 s, adbin -1 i "),
        "pg_attribute": (
            "attrelid 4 i, attname 64 c, atttypid 4 i, attlen 2 s, attnum 2 s, attcacheoff 4 i, atttypmod 4 i, "
            "attndims 2 s, attbyval 1 c, attalign 1 c, attstorage 1 c, attcompression 1 c, attnotnull 1 c, "
            "atthasdef 1 c, atthasmissing 1 c, attidentity 1 c, attgenerated 1 c, attisdropped 1 c, attislocal 1 "
            "c, attinhcount 2 s, attcollation 4 i, attstattarget 2 s ?, attacl -1 d, attoptions -1 i, "
            "attfdwoptions -1 i, attmissingval -1 d "
        ),
        "pg_authid": (
            "oid 4 i, rolname 64 c, rolsuper 1 c, rolinherit 1 c, rolcreaterole 1 c, rolcreatedb 1 c, rolcanlogin "
            "1 c, rolreplication 1 c, rolbypassrls 1 c, rolconnlimit 4 i, rolpassword -1 i, rolvaliduntil 8 d "
        ),
        "pg_class": (
            "oid 4 i, relname 64 c, relnamespace 4 i, reltype 4 i, reloftype 4 i, relowner 4 i, relam 4 i, "
            "relfilenode 4 i, reltablespace 4 i, relpages 4 i, reltuples 4 i, relallvisible 4 i, reltoastrelid 4 "
            "i, relhasindex 1 c, relisshared 1 c, relpersistence 1 c, relkind 1 c, relnatts 2 s, relchecks 2 s, "
            "relhasrules 1 c, relhastriggers 1 c, relhassubclass 1 c, relrowsecurity 1 c, relforcerowsecurity 1 "
            "c, relispopulated 1 c, relreplident 1 c, relispartition 1 c, relrewrite 4 i, relfrozenxid 4 i, "
            "relminmxid 4 i, relacl -1 d, reloptions -1 i, relpartbound -1 i "
        ),
        "pg_collation": (
            "oid 4 i, collname 64 c, collnamespace 4 i, collowner 4 i, collprovider 1 c, collisdeterministic 1 c, "
            "collencoding 4 i, collcollate -1 i, collctype -1 i, colllocale -1 i, collicurules -1 i, collversion "
            "-1 i "
        ),
        "pg_constraint": (
            "oid 4 i, conname 64 c, connamespace 4 i, contype 1 c, condeferrable 1 c, condeferred 1 c, "
            "convalidated 1 c, conrelid 4 i, contypid 4 i, conindid 4 i, conparentid 4 i, confrelid 4 i, "
            "confupdtype 1 c, confdeltype 1 c, confmatchtype 1 c, conislocal 1 c, coninhcount 2 s, connoinherit 1 "
            "c, conkey -1 i, confkey -1 i, conpfeqop -1 i, conppeqop -1 i, conffeqop -1 i, confdelsetcols -1 i, "
            "conexclop -1 i, conbin -1 i "
        ),
        "pg_database": (
            "oid 4 i, datname 64 c, datdba 4 i, encoding 4 i, datlocprovider 1 c, datistemplate 1 c, datallowconn "
            "1 c, dathasloginevt 1 c, datconnlimit 4 i, datfrozenxid 4 i, datminmxid 4 i, dattablespace 4 i, "
            "datcollate -1 i, datctype -1 i, datlocale -1 i, daticurules -1 i, datcollversion -1 i, datacl -1 d "
        ),
        "pg_depend": (
            "classid 4 i, objid 4 i, objsubid 4 i, refclassid 4 i, refobjid 4 i, refobjsubid 4 i, deptype 1 c "
        ),
        "pg_description": ("objoid 4 i, classoid 4 i, objsubid 4 i, description -1 i "),
        "pg_enum": ("oid 4 i, enumtypid 4 i, enumsortorder 4 i, enumlabel 64 c "),
        "pg_event_trigger": (
            "oid 4 i, evtname 64 c, evtevent 64 c, evtowner 4 i, evtfoid 4 i, evtenabled 1 c, evttags -1 i "
        ),
        "pg_extension": (
            "oid 4 i, extname 64 c, extowner 4 i, extnamespace 4 i, extrelocatable 1 c, extversion -1 i, "
            "extconfig -1 i, extcondition -1 i "
        ),
        "pg_index": (
            "indexrelid 4 i, indrelid 4 i, indnatts 2 s, indnkeyatts 2 s, indisunique 1 c, indnullsnotdistinct 1 "
            "c, indisprimary 1 c, indisexclusion 1 c, indimmediate 1 c, indisclustered 1 c, indisvalid 1 c, "
            "indcheckxmin 1 c, indisready 1 c, indislive 1 c, indisreplident 1 c, indkey -1 i, indcollation -1 i, "
            "indclass -1 i, indoption -1 i, indexprs -1 i, indpred -1 i "
        ),
        "pg_inherits": ("inhrelid 4 i, inhparent 4 i, inhseqno 4 i, inhdetachpending 1 c "),
        "pg_namespace": ("oid 4 i, nspname 64 c, nspowner 4 i, nspacl -1 d "),
        "pg_opclass": (
            "oid 4 i, opcmethod 4 i, opcname 64 c, opcnamespace 4 i, opcowner 4 i, opcfamily 4 i, opcintype 4 i, "
            "opcdefault 1 c, opckeytype 4 i "
        ),
        "pg_operator": (
            "oid 4 i, oprname 64 c, oprnamespace 4 i, oprowner 4 i, oprkind 1 c, oprcanmerge 1 c, oprcanhash 1 c, "
            "oprleft 4 i, oprright 4 i, oprresult 4 i, oprcom 4 i, oprnegate 4 i, oprcode 4 i, oprrest 4 i, "
            "oprjoin 4 i "
        ),
        "pg_partitioned_table": (
            "partrelid 4 i, partstrat 1 c, partnatts 2 s, partdefid 4 i, partattrs -1 i, partclass -1 i, "
            "partcollation -1 i, partexprs -1 i "
        ),
        "pg_policy": (
            "oid 4 i, polname 64 c, polrelid 4 i, polcmd 1 c, polpermissive 1 c, polroles -1 i, polqual -1 i, "
            "polwithcheck -1 i "
        ),
        "pg_proc": (
            "oid 4 i, proname 64 c, pronamespace 4 i, proowner 4 i, prolang 4 i, procost 4 i, prorows 4 i, "
            "provariadic 4 i, prosupport 4 i, prokind 1 c, prosecdef 1 c, proleakproof 1 c, proisstrict 1 c, "
            "proretset 1 c, provolatile 1 c, proparallel 1 c, pronargs 2 s, pronargdefaults 2 s, prorettype 4 i, "
            "proargtypes -1 i, proallargtypes -1 i, proargmodes -1 i, proargnames -1 i, proargdefaults -1 i, "
            "protrftypes -1 i, prosrc -1 i, probin -1 i, prosqlbody -1 i, proconfig -1 i, proacl -1 d "
        ),
        "pg_publication": (
            "oid 4 i, pubname 64 c, pubowner 4 i, puballtables 1 c, pubinsert 1 c, pubupdate 1 c, pubdelete 1 c, "
            "pubtruncate 1 c, pubviaroot 1 c "
        ),
        "pg_publication_namespace": ("oid 4 i, pnpubid 4 i, pnnspid 4 i "),
        "pg_publication_rel": ("oid 4 i, prpubid 4 i, prrelid 4 i, prqual -1 i, prattrs -1 i "),
        "pg_range": (
            "rngtypid 4 i, rngsubtype 4 i, rngmultitypid 4 i, rngcollation 4 i, rngsubopc 4 i, rngcanonical 4 i, "
            "rngsubdiff 4 i "
        ),
        "pg_replication_origin": ("roident 4 i, roname -1 i "),
        "pg_rewrite": (
            "oid 4 i, rulename 64 c, ev_class 4 i, ev_type 1 c, ev_enabled 1 c, is_instead 1 c, ev_qual -1 i, "
            "ev_action -1 i "
        ),
        "pg_sequence": (
            "seqrelid 4 i, seqtypid 4 i, seqstart 8 d, seqincrement 8 d, seqmax 8 d, seqmin 8 d, seqcache 8 d, "
            "seqcycle 1 c "
        ),
        "pg_statistic_ext": (
            "oid 4 i, stxrelid 4 i, stxname 64 c, stxnamespace 4 i, stxowner 4 i, stxkeys -1 i, stxstattarget 2 s "
            "?, stxkind -1 i, stxexprs -1 i "
        ),
        "pg_tablespace": ("oid 4 i, spcname 64 c, spcowner 4 i, spcacl -1 d, spcoptions -1 i "),
        "pg_trigger": (
            "oid 4 i, tgrelid 4 i, tgparentid 4 i, tgname 64 c, tgfoid 4 i, tgtype 2 s, tgenabled 1 c, "
            "tgisinternal 1 c, tgconstrrelid 4 i, tgconstrindid 4 i, tgconstraint 4 i, tgdeferrable 1 c, "
            "tginitdeferred 1 c, tgnargs 2 s, tgattr -1 i, tgargs -1 i, tgqual -1 i, tgoldtable 64 c, tgnewtable "
            "64 c "
        ),
        "pg_ts_config": ("oid 4 i, cfgname 64 c, cfgnamespace 4 i, cfgowner 4 i, cfgparser 4 i "),
        "pg_ts_dict": (
            "oid 4 i, dictname 64 c, dictnamespace 4 i, dictowner 4 i, dicttemplate 4 i, dictinitoption -1 i "
        ),
        "pg_type": (
            "oid 4 i, typname 64 c, typnamespace 4 i, typowner 4 i, typlen 2 s, typbyval 1 c, typtype 1 c, "
            "typcategory 1 c, typispreferred 1 c, typisdefined 1 c, typdelim 1 c, typrelid 4 i, typsubscript 4 i, "
            "typelem 4 i, typarray 4 i, typinput 4 i, typoutput 4 i, typreceive 4 i, typsend 4 i, typmodin 4 i, "
            "typmodout 4 i, typanalyze 4 i, typalign 1 c, typstorage 1 c, typnotnull 1 c, typbasetype 4 i, "
            "typtypmod 4 i, typndims 4 i, typcollation 4 i, typdefaultbin -1 i, typdefault -1 i, typacl -1 d "
        ),
        "pg_toast_2604": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2606": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2609": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_3350": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_6106": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
    },
    18: {
        "pg_am": ("oid 4 i, amname 64 c, amhandler 4 i, amtype 1 c "),
        "pg_attrdef": ("oid 4 i, adrelid 4 i, adnum 2 s, adbin -1 i "),
        "pg_attribute": (
            "attrelid 4 i, attname 64 c, atttypid 4 i, attlen 2 s, attnum 2 s, atttypmod 4 i, attndims 2 s, "
            "attbyval 1 c, attalign 1 c, attstorage 1 c, attcompression 1 c, attnotnull 1 c, atthasdef 1 c, "
            "atthasmissing 1 c, attidentity 1 c, attgenerated 1 c, attisdropped 1 c, attislocal 1 c, attinhcount "
            "2 s, attcollation 4 i, attstattarget 2 s ?, attacl -1 d, attoptions -1 i, attfdwoptions -1 i, "
            "attmissingval -1 d "
        ),
        "pg_authid": (
            "oid 4 i, rolname 64 c, rolsuper 1 c, rolinherit 1 c, rolcreaterole 1 c, rolcreatedb 1 c, rolcanlogin "
            "1 c, rolreplication 1 c, rolbypassrls 1 c, rolconnlimit 4 i, rolpassword -1 i, rolvaliduntil 8 d "
        ),
        "pg_class": (
            "oid 4 i, relname 64 c, relnamespace 4 i, reltype 4 i, reloftype 4 i, relowner 4 i, relam 4 i, "
            "relfilenode 4 i, reltablespace 4 i, relpages 4 i, reltuples 4 i, relallvisible 4 i, relallfrozen 4 "
            "i, reltoastrelid 4 i, relhasindex 1 c, relisshared 1 c, relpersistence 1 c, relkind 1 c, relnatts 2 "
            "s, relchecks 2 s, relhasrules 1 c, relhastriggers 1 c, relhassubclass 1 c, relrowsecurity 1 c, "
            "relforcerowsecurity 1 c, relispopulated 1 c, relreplident 1 c, relispartition 1 c, relrewrite 4 i, "
            "relfrozenxid 4 i, relminmxid 4 i, relacl -1 d, reloptions -1 i, relpartbound -1 i "
        ),
        "pg_collation": (
            "oid 4 i, collname 64 c, collnamespace 4 i, collowner 4 i, collprovider 1 c, collisdeterministic 1 c, "
            "collencoding 4 i, collcollate -1 i, collctype -1 i, colllocale -1 i, collicurules -1 i, collversion "
            "-1 i "
        ),
        "pg_constraint": (
            "oid 4 i, conname 64 c, connamespace 4 i, contype 1 c, condeferrable 1 c, condeferred 1 c, "
            "conenforced 1 c, convalidated 1 c, conrelid 4 i, contypid 4 i, conindid 4 i, conparentid 4 i, "
            "confrelid 4 i, confupdtype 1 c, confdeltype 1 c, confmatchtype 1 c, conislocal 1 c, coninhcount 2 s, "
            "connoinherit 1 c, conperiod 1 c, conkey -1 i, confkey -1 i, conpfeqop -1 i, conppeqop -1 i, "
            "conffeqop -1 i, confdelsetcols -1 i, conexclop -1 i, conbin -1 i "
        ),
        "pg_database": (
            "oid 4 i, datname 64 c, datdba 4 i, encoding 4 i, datlocprovider 1 c, datistemplate 1 c, datallowconn "
            "1 c, dathasloginevt 1 c, datconnlimit 4 i, datfrozenxid 4 i, datminmxid 4 i, dattablespace 4 i, "
            "datcollate -1 i, datctype -1 i, datlocale -1 i, daticurules -1 i, datcollversion -1 i, datacl -1 d "
        ),
        "pg_depend": (
            "classid 4 i, objid 4 i, objsubid 4 i, refclassid 4 i, refobjid 4 i, refobjsubid 4 i, deptype 1 c "
        ),
        "pg_description": ("objoid 4 i, classoid 4 i, objsubid 4 i, description -1 i "),
        "pg_enum": ("oid 4 i, enumtypid 4 i, enumsortorder 4 i, enumlabel 64 c "),
        "pg_event_trigger": (
            "oid 4 i, evtname 64 c, evtevent 64 c, evtowner 4 i, evtfoid 4 i, evtenabled 1 c, evttags -1 i "
        ),
        "pg_extension": (
            "oid 4 i, extname 64 c, extowner 4 i, extnamespace 4 i, extrelocatable 1 c, extversion -1 i, "
            "extconfig -1 i, extcondition -1 i "
        ),
        "pg_index": (
            "indexrelid 4 i, indrelid 4 i, indnatts 2 s, indnkeyatts 2 s, indisunique 1 c, indnullsnotdistinct 1 "
            "c, indisprimary 1 c, indisexclusion 1 c, indimmediate 1 c, indisclustered 1 c, indisvalid 1 c, "
            "indcheckxmin 1 c, indisready 1 c, indislive 1 c, indisreplident 1 c, indkey -1 i, indcollation -1 i, "
            "indclass -1 i, indoption -1 i, indexprs -1 i, indpred -1 i "
        ),
        "pg_inherits": ("inhrelid 4 i, inhparent 4 i, inhseqno 4 i, inhdetachpending 1 c "),
        "pg_namespace": ("oid 4 i, nspname 64 c, nspowner 4 i, nspacl -1 d "),
        "pg_opclass": (
            "oid 4 i, opcmethod 4 i, opcname 64 c, opcnamespace 4 i, opcowner 4 i, opcfamily 4 i, opcintype 4 i, "
            "opcdefault 1 c, opckeytype 4 i "
        ),
        "pg_operator": (
            "oid 4 i, oprname 64 c, oprnamespace 4 i, oprowner 4 i, oprkind 1 c, oprcanmerge 1 c, oprcanhash 1 c, "
            "oprleft 4 i, oprright 4 i, oprresult 4 i, oprcom 4 i, oprnegate 4 i, oprcode 4 i, oprrest 4 i, "
            "oprjoin 4 i "
        ),
        "pg_partitioned_table": (
            "partrelid 4 i, partstrat 1 c, partnatts 2 s, partdefid 4 i, partattrs -1 i, partclass -1 i, "
            "partcollation -1 i, partexprs -1 i "
        ),
        "pg_policy": (
            "oid 4 i, polname 64 c, polrelid 4 i, polcmd 1 c, polpermissive 1 c, polroles -1 i, polqual -1 i, "
            "polwithcheck -1 i "
        ),
        "pg_proc": (
            "oid 4 i, proname 64 c, pronamespace 4 i, proowner 4 i, prolang 4 i, procost 4 i, prorows 4 i, "
            "provariadic 4 i, prosupport 4 i, prokind 1 c, prosecdef 1 c, proleakproof 1 c, proisstrict 1 c, "
            "proretset 1 c, provolatile 1 c, proparallel 1 c, pronargs 2 s, pronargdefaults 2 s, prorettype 4 i, "
            "proargtypes -1 i, proallargtypes -1 i, proargmodes -1 i, proargnames -1 i, proargdefaults -1 i, "
            "protrftypes -1 i, prosrc -1 i, probin -1 i, prosqlbody -1 i, proconfig -1 i, proacl -1 d "
        ),
        "pg_publication": (
            "oid 4 i, pubname 64 c, pubowner 4 i, puballtables 1 c, pubinsert 1 c, pubupdate 1 c, pubdelete 1 c, "
            "pubtruncate 1 c, pubviaroot 1 c, pubgencols 1 c "
        ),
        "pg_publication_namespace": ("oid 4 i, pnpubid 4 i, pnnspid 4 i "),
        "pg_publication_rel": ("oid 4 i, prpubid 4 i, prrelid 4 i, prqual -1 i, prattrs -1 i "),
        "pg_range": (
            "rngtypid 4 i, rngsubtype 4 i, rngmultitypid 4 i, rngcollation 4 i, rngsubopc 4 i, rngcanonical 4 i, "
            "rngsubdiff 4 i "
        ),
        "pg_replication_origin": ("roident 4 i, roname -1 i "),
        "pg_rewrite": (
            "oid 4 i, rulename 64 c, ev_class 4 i, ev_type 1 c, ev_enabled 1 c, is_instead 1 c, ev_qual -1 i, "
            "ev_action -1 i "
        ),
        "pg_sequence": (
            "seqrelid 4 i, seqtypid 4 i, seqstart 8 d, seqincrement 8 d, seqmax 8 d, seqmin 8 d, seqcache 8 d, "
            "seqcycle 1 c "
        ),
        "pg_statistic_ext": (
            "oid 4 i, stxrelid 4 i, stxname 64 c, stxnamespace 4 i, stxowner 4 i, stxkeys -1 i, stxstattarget 2 s "
            "?, stxkind -1 i, stxexprs -1 i "
        ),
        "pg_tablespace": ("oid 4 i, spcname 64 c, spcowner 4 i, spcacl -1 d, spcoptions -1 i "),
        "pg_trigger": (
            "oid 4 i, tgrelid 4 i, tgparentid 4 i, tgname 64 c, tgfoid 4 i, tgtype 2 s, tgenabled 1 c, "
            "tgisinternal 1 c, tgconstrrelid 4 i, tgconstrindid 4 i, tgconstraint 4 i, tgdeferrable 1 c, "
            "tginitdeferred 1 c, tgnargs 2 s, tgattr -1 i, tgargs -1 i, tgqual -1 i, tgoldtable 64 c, tgnewtable "
            "64 c "
        ),
        "pg_ts_config": ("oid 4 i, cfgname 64 c, cfgnamespace 4 i, cfgowner 4 i, cfgparser 4 i "),
        "pg_ts_dict": (
            "oid 4 i, dictname 64 c, dictnamespace 4 i, dictowner 4 i, dicttemplate 4 i, dictinitoption -1 i "
        ),
        "pg_type": (
            "oid 4 i, typname 64 c, typnamespace 4 i, typowner 4 i, typlen 2 s, typbyval 1 c, typtype 1 c, "
            "typcategory 1 c, typispreferred 1 c, typisdefined 1 c, typdelim 1 c, typrelid 4 i, typsubscript 4 i, "
            "typelem 4 i, typarray 4 i, typinput 4 i, typoutput 4 i, typreceive 4 i, typsend 4 i, typmodin 4 i, "
            "typmodout 4 i, typanalyze 4 i, typalign 1 c, typstorage 1 c, typnotnull 1 c, typbasetype 4 i, "
            "typtypmod 4 i, typndims 4 i, typcollation 4 i, typdefaultbin -1 i, typdefault -1 i, typacl -1 d "
        ),
        "pg_toast_2604": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2606": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2609": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2610": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_3350": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_6106": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
    },
    19: {
        "pg_am": ("oid 4 i, amname 64 c, amhandler 4 i, amtype 1 c "),
        "pg_attrdef": ("oid 4 i, adrelid 4 i, adnum 2 s, adbin -1 i "),
        "pg_attribute": (
            "attrelid 4 i, attname 64 c, atttypid 4 i, attlen 2 s, attnum 2 s, atttypmod 4 i, attndims 2 s, "
            "attbyval 1 c, attalign 1 c, attstorage 1 c, attcompression 1 c, attnotnull 1 c, atthasdef 1 c, "
            "atthasmissing 1 c, attidentity 1 c, attgenerated 1 c, attisdropped 1 c, attislocal 1 c, attinhcount "
            "2 s, attcollation 4 i, attstattarget 2 s ?, attacl -1 d, attoptions -1 i, attfdwoptions -1 i, "
            "attmissingval -1 d "
        ),
        "pg_authid": (
            "oid 4 i, rolname 64 c, rolsuper 1 c, rolinherit 1 c, rolcreaterole 1 c, rolcreatedb 1 c, rolcanlogin "
            "1 c, rolreplication 1 c, rolbypassrls 1 c, rolconnlimit 4 i, rolpassword -1 i, rolvaliduntil 8 d "
        ),
        "pg_class": (
            "oid 4 i, relname 64 c, relnamespace 4 i, reltype 4 i, reloftype 4 i, relowner 4 i, relam 4 i, "
            "relfilenode 4 i, reltablespace 4 i, relpages 4 i, reltuples 4 i, relallvisible 4 i, relallfrozen 4 "
            "i, reltoastrelid 4 i, relhasindex 1 c, relisshared 1 c, relpersistence 1 c, relkind 1 c, relnatts 2 "
            "s, relchecks 2 s, relhasrules 1 c, relhastriggers 1 c, relhassubclass 1 c, relrowsecurity 1 c, "
            "relforcerowsecurity 1 c, relispopulated 1 c, relreplident 1 c, relispartition 1 c, relrewrite 4 i, "
            "relfrozenxid 4 i, relminmxid 4 i, relacl -1 d, reloptions -1 i, relpartbound -1 i "
        ),
        "pg_collation": (
            "oid 4 i, collname 64 c, collnamespace 4 i, collowner 4 i, collprovider 1 c, collisdeterministic 1 c, "
            "collencoding 4 i, collcollate -1 i, collctype -1 i, colllocale -1 i, collicurules -1 i, collversion "
            "-1 i "
        ),
        "pg_constraint": (
            "oid 4 i, conname 64 c, connamespace 4 i, contype 1 c, condeferrable 1 c, condeferred 1 c, "
            "conenforced 1 c, convalidated 1 c, conrelid 4 i, contypid 4 i, conindid 4 i, conparentid 4 i, "
            "confrelid 4 i, confupdtype 1 c, confdeltype 1 c, confmatchtype 1 c, conislocal 1 c, coninhcount 2 s, "
            "connoinherit 1 c, conperiod 1 c, conkey -1 i, confkey -1 i, conpfeqop -1 i, conppeqop -1 i, "
            "conffeqop -1 i, confdelsetcols -1 i, conexclop -1 i, conbin -1 i "
        ),
        "pg_database": (
            "oid 4 i, datname 64 c, datdba 4 i, encoding 4 i, datlocprovider 1 c, datistemplate 1 c, datallowconn "
            "1 c, dathasloginevt 1 c, datconnlimit 4 i, datfrozenxid 4 i, datminmxid 4 i, dattablespace 4 i, "
            "datcollate -1 i, datctype -1 i, datlocale -1 i, daticurules -1 i, datcollversion -1 i, datacl -1 d "
        ),
        "pg_depend": (
            "classid 4 i, objid 4 i, objsubid 4 i, refclassid 4 i, refobjid 4 i, refobjsubid 4 i, deptype 1 c "
        ),
        "pg_description": ("objoid 4 i, classoid 4 i, objsubid 4 i, description -1 i "),
        "pg_enum": ("oid 4 i, enumtypid 4 i, enumsortorder 4 i, enumlabel 64 c "),
        "pg_event_trigger": (
            "oid 4 i, evtname 64 c, evtevent 64 c, evtowner 4 i, evtfoid 4 i, evtenabled 1 c, evttags -1 i "
        ),
        "pg_extension": (
            "oid 4 i, extname 64 c, extowner 4 i, extnamespace 4 i, extrelocatable 1 c, extversion -1 i, "
            "extconfig -1 i, extcondition -1 i "
        ),
        "pg_index": (
            "indexrelid 4 i, indrelid 4 i, indnatts 2 s, indnkeyatts 2 s, indisunique 1 c, indnullsnotdistinct 1 "
            "c, indisprimary 1 c, indisexclusion 1 c, indimmediate 1 c, indisclustered 1 c, indisvalid 1 c, "
            "indcheckxmin 1 c, indisready 1 c, indislive 1 c, indisreplident 1 c, indkey -1 i, indcollation -1 i, "
            "indclass -1 i, indoption -1 i, indexprs -1 i, indpred -1 i "
        ),
        "pg_inherits": ("inhrelid 4 i, inhparent 4 i, inhseqno 4 i, inhdetachpending 1 c "),
        "pg_namespace": ("oid 4 i, nspname 64 c, nspowner 4 i, nspacl -1 d "),
        "pg_opclass": (
            "oid 4 i, opcmethod 4 i, opcname 64 c, opcnamespace 4 i, opcowner 4 i, opcfamily 4 i, opcintype 4 i, "
            "opcdefault 1 c, opckeytype 4 i "
        ),
        "pg_operator": (
            "oid 4 i, oprname 64 c, oprnamespace 4 i, oprowner 4 i, oprkind 1 c, oprcanmerge 1 c, oprcanhash 1 c, "
            "oprleft 4 i, oprright 4 i, oprresult 4 i, oprcom 4 i, oprnegate 4 i, oprcode 4 i, oprrest 4 i, "
            "oprjoin 4 i "
        ),
        "pg_partitioned_table": (
            "partrelid 4 i, partstrat 1 c, partnatts 2 s, partdefid 4 i, partattrs -1 i, partclass -1 i, "
            "partcollation -1 i, partexprs -1 i "
        ),
        "pg_policy": (
            "oid 4 i, polname 64 c, polrelid 4 i, polcmd 1 c, polpermissive 1 c, polroles -1 i, polqual -1 i, "
            "polwithcheck -1 i "
        ),
        "pg_proc": (
            "oid 4 i, proname 64 c, pronamespace 4 i, proowner 4 i, prolang 4 i, procost 4 i, prorows 4 i, "
            "provariadic 4 i, prosupport 4 i, prokind 1 c, prosecdef 1 c, proleakproof 1 c, proisstrict 1 c, "
            "proretset 1 c, provolatile 1 c, proparallel 1 c, pronargs 2 s, pronargdefaults 2 s, prorettype 4 i, "
            "proargtypes -1 i, proallargtypes -1 i, proargmodes -1 i, proargnames -1 i, proargdefaults -1 i, "
            "protrftypes -1 i, prosrc -1 i, probin -1 i, prosqlbody -1 i, proconfig -1 i, proacl -1 d "
        ),
        "pg_publication": (
            "oid 4 i, pubname 64 c, pubowner 4 i, puballtables 1 c, puballsequences 1 c, pubinsert 1 c, pubupdate "
            "1 c, pubdelete 1 c, pubtruncate 1 c, pubviaroot 1 c, pubgencols 1 c "
        ),
        "pg_publication_namespace": ("oid 4 i, pnpubid 4 i, pnnspid 4 i "),
        "pg_publication_rel": ("oid 4 i, prpubid 4 i, prrelid 4 i, prexcept 1 c, prqual -1 i, prattrs -1 i "),
        "pg_range": (
            "rngtypid 4 i, rngsubtype 4 i, rngmultitypid 4 i, rngcollation 4 i, rngsubopc 4 i, rngconstruct2 4 i, "
            "rngconstruct3 4 i, rngmltconstruct0 4 i, rngmltconstruct1 4 i, rngmltconstruct2 4 i, rngcanonical 4 "
            "i, rngsubdiff 4 i "
        ),
        "pg_replication_origin": ("roident 4 i, roname -1 i "),
        "pg_rewrite": (
            "oid 4 i, rulename 64 c, ev_class 4 i, ev_type 1 c, ev_enabled 1 c, is_instead 1 c, ev_qual -1 i, "
            "ev_action -1 i "
        ),
        "pg_sequence": (
            "seqrelid 4 i, seqtypid 4 i, seqstart 8 d, seqincrement 8 d, seqmax 8 d, seqmin 8 d, seqcache 8 d, "
            "seqcycle 1 c "
        ),
        "pg_statistic_ext": (
            "oid 4 i, stxrelid 4 i, stxname 64 c, stxnamespace 4 i, stxowner 4 i, stxkeys -1 i, stxstattarget 2 s "
            "?, stxkind -1 i, stxexprs -1 i "
        ),
        "pg_tablespace": ("oid 4 i, spcname 64 c, spcowner 4 i, spcacl -1 d, spcoptions -1 i "),
        "pg_trigger": (
            "oid 4 i, tgrelid 4 i, tgparentid 4 i, tgname 64 c, tgfoid 4 i, tgtype 2 s, tgenabled 1 c, "
            "tgisinternal 1 c, tgconstrrelid 4 i, tgconstrindid 4 i, tgconstraint 4 i, tgdeferrable 1 c, "
            "tginitdeferred 1 c, tgnargs 2 s, tgattr -1 i, tgargs -1 i, tgqual -1 i, tgoldtable 64 c, tgnewtable "
            "64 c "
        ),
        "pg_ts_config": ("oid 4 i, cfgname 64 c, cfgnamespace 4 i, cfgowner 4 i, cfgparser 4 i "),
        "pg_ts_dict": (
            "oid 4 i, dictname 64 c, dictnamespace 4 i, dictowner 4 i, dicttemplate 4 i, dictinitoption -1 i "
        ),
        "pg_type": (
            "oid 4 i, typname 64 c, typnamespace 4 i, typowner 4 i, typlen 2 s, typbyval 1 c, typtype 1 c, "
            "typcategory 1 c, typispreferred 1 c, typisdefined 1 c, typdelim 1 c, typrelid 4 i, typsubscript 4 i, "
            "typelem 4 i, typarray 4 i, typinput 4 i, typoutput 4 i, typreceive 4 i, typsend 4 i, typmodin 4 i, "
            "typmodout 4 i, typanalyze 4 i, typalign 1 c, typstorage 1 c, typnotnull 1 c, typbasetype 4 i, "
            "typtypmod 4 i, typndims 4 i, typcollation 4 i, typdefaultbin -1 i, typdefault -1 i, typacl -1 d "
        ),
        "pg_toast_2604": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2606": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2609": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_2610": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_3350": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
        "pg_toast_6106": ("chunk_id 4 i, chunk_seq 4 i, chunk_data -1 i "),
    },
}
