# Puts Headwater's service in the place of publishers, for PostgreSQL's own scripts: perl -MHeadwaterPublisher SCRIPT.
#
# A node keeps its server, which the scripts write to. What asks it as a publisher goes to the service beside it:
# connection strings of subscriptions, sessions of replication, pg_recvlogical, and SQL about slots and walsenders. The
# runner starts the service when that is first needed, and gives it the node's settings, rules and users whenever these
# may have changed. Its log goes into the node's log.

package HeadwaterPublisher;

use strict;
use warnings;

use IO::Socket::UNIX;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

my $CLUSTER = 'PostgreSQL::Test::Cluster';
my %port_of;    # of the service beside a node, by the node's name

# SQL that only the server which has the slots can answer.
my $OF_SLOTS = qr/pg_stat_replication\b|pg_stat_replication_slots\b|pg_replication_slots\b
	|pg_logical_slot_(?:get|peek)_|pg_create_(?:logical|physical)_replication_slot
	|pg_drop_replication_slot|pg_replication_slot_advance|pg_copy_(?:logical|physical)_replication_slot/x;

# Says something to the runner, and returns what it answers.
sub ask
{
	my @words = @_;
	my $socket = IO::Socket::UNIX->new(Type => SOCK_STREAM(), Peer => $ENV{HEADWATER_RUNNER})
	  or die "cannot reach the runner: $!";
	print $socket join("\t", @words) . "\n";
	$socket->flush;
	my $answer = <$socket>;
	die "the runner has gone" unless defined $answer;
	chomp $answer;
	die "the runner: $answer" unless $answer eq 'done';
	return;
}

# The port of the service beside a node, which is started if there is none yet, and has the node's settings now.
sub port_of
{
	my ($node) = @_;
	my $name = $node->name;
	$port_of{$name} = PostgreSQL::Test::Cluster::get_free_port() unless exists $port_of{$name};
	ask('serve', $name, $node->host, $node->port, $node->data_dir, $node->logfile, $port_of{$name});
	return $port_of{$name};
}

# Leads the connection strings of subscriptions to the services.
sub with_services
{
	my ($sql) = @_;
	$sql =~ s/(\bCONNECTION\s+(?:'|\$\$))((?:[^'\$]|'')*)/$1 . to_service($2)/gie;
	return $sql;
}

sub to_service
{
	my ($string) = @_;
	foreach my $node (@PostgreSQL::Test::Cluster::all_nodes)
	{
		my $port = $node->port;
		$string =~ s/\bport=$port\b/'port=' . port_of($node)/e;
	}
	return $string;
}

# Waits until the services have what was committed: subscribers ask them next.
sub catch_up
{
	foreach my $node (@PostgreSQL::Test::Cluster::all_nodes)
	{
		port_of($node) if exists $port_of{ $node->name } && defined $node->{_pid};
	}
	return;
}

# Splits what is partly for the server and partly for the service, at the ends of lines.
sub parts
{
	my ($sql) = @_;
	return ($sql) unless $sql =~ $OF_SLOTS and $sql =~ /;\s*\n\s*\S/;
	return split(/(?<=;)\s*\n/, $sql);
}

sub wrap
{
	my ($name, $wrapper) = @_;
	my $original = $CLUSTER->can($name) or return;
	no strict 'refs';
	no warnings 'redefine';
	*{"${CLUSTER}::$name"} = sub { return $wrapper->($original, @_) };
	return;
}

wrap(
	psql => sub {
		my ($original, $self, $dbname, $sql, %params) = @_;
		die "commits of the server wait for walsenders of its own: the next one would wait for ever\n"
		  if $sql =~ /\bSET\s+synchronous_standby_names\b/i;
		my $is_of_slots = $sql =~ $OF_SLOTS;
		my @parts = $is_of_slots ? parts($sql) : ($sql);
		return in_parts($original, $self, $dbname, \@parts, %params) if @parts > 1;
		catch_up() if $sql =~ /\bSUBSCRIPTION\b/i;
		my $to_service = $is_of_slots || defined $params{replication} || $sql =~ /\b[A-Z]+_REPLICATION_SLOT\b/;
		if ($to_service && defined $params{extra_params})
		{
			my ($port, $own) = ($self->port, port_of($self));
			$params{extra_params} = [ map { s/\bport=$port\b/port=$own/r } @{ $params{extra_params} } ];
		}
		local $self->{_port} = $to_service ? port_of($self) : $self->{_port};
		return $original->($self, $dbname, with_services($sql), %params);
	});

# Runs one statement after the other, each where it is answered, until one fails.
sub in_parts
{
	my ($original, $self, $dbname, $parts, %params) = @_;
	my ($ret, $all_out, $all_err) = (0, '', '');
	foreach my $part (@$parts)
	{
		next unless $part =~ /\S/;
		my ($out, $err) = ('', '');
		local $self->{_port} = $part =~ $OF_SLOTS ? port_of($self) : $self->{_port};
		$ret = $original->(
			$self, $dbname, with_services($part), %params, stdout => \$out, stderr => \$err);
		$all_out .= ($all_out ne '' && $out ne '' ? "\n" : '') . $out;
		$all_err .= ($all_err ne '' && $err ne '' ? "\n" : '') . $err;
		last if $ret;
	}
	${ $params{stdout} } = $all_out if defined $params{stdout};
	${ $params{stderr} } = $all_err if defined $params{stderr};
	return wantarray ? ($ret, $all_out, $all_err) : $ret;
}

wrap(
	poll_query_until => sub {
		my ($original, $self, $dbname, $sql, @rest) = @_;
		local $self->{_port} = $sql =~ $OF_SLOTS ? port_of($self) : $self->{_port};
		return $original->($self, $dbname, $sql, @rest);
	});

# pg_recvlogical connects where its environment and its arguments say.
foreach my $name (qw(command_ok command_fails command_like command_fails_like command_checks_all run_log))
{
	wrap(
		$name => sub {
			my ($original, $self, $command, @rest) = @_;
			return $original->($self, $command, @rest)
			  unless ref $command eq 'ARRAY' && $command->[0] eq 'pg_recvlogical';
			my $port = $self->port;
			local $self->{_port} = port_of($self);
			my @words = map { s/\bport=$port\b/port=$self->{_port}/r } @$command;
			return $original->($self, \@words, @rest);
		});
}

wrap(
	pg_recvlogical_upto => sub {
		my ($original, $self, @rest) = @_;
		local $self->{_port} = port_of($self);
		return $original->($self, @rest);
	});

# The service learns of the node's settings; it is one more part of what is told to load its configuration.
foreach my $name (qw(start restart reload))
{
	wrap(
		$name => sub {
			my ($original, $self, @rest) = @_;
			my $result = $original->($self, @rest);
			port_of($self) if exists $port_of{ $self->name };
			return $result;
		});
}

wrap(
	rotate_logfile => sub {
		my ($original, $self, @rest) = @_;
		my $file = $original->($self, @rest);
		ask('log', $self->name, $file) if exists $port_of{ $self->name };
		return $file;
	});

1;
