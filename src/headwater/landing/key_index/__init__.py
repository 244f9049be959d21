"""An index of a mirror beside its target: where its rows lie, by their keys, without reading the mirror.

In: hashes of the keys in a mirror's files, once a file. Out: of hashes that are sought, the files and rows that may
have them. Must not know: what changes are, how a format keeps files, which rows of a file are deleted.

A file of a table never changes. So what is known of one holds as long as there is the file, whatever versions a table
goes through, and whoever makes them: files that come are read, those that are gone are passed over. Nothing of it is
needed: an index that is lost or damaged is made again.
"""
