# Reads the counters of one machine and of its containers again and again, a line of JSON each time.
#
# It runs in a helper container that has joined the machine's network and PID namespaces, so that
# neither its work nor its memory counts as theirs. Raw counters: the reader makes rates of them.
#
# perl -e SCRIPT SECONDS_BETWEEN SECONDS_IN_ALL ROLE=CONTAINER_ID=PROBE...
use strict;
use warnings;
use IO::Socket::UNIX;
use Time::HiRes qw(time sleep);

my ($pause, $life, @wanted) = @ARGV;
my (%id, %probe, %pid, %dbh, %later);
for (@wanted) {
    my ($role, $id, $probe) = split /=/, $_, 3;
    ($id{$role}, $probe{$role}) = ($id, $probe);
}
my $v2 = -e '/sys/fs/cgroup/cgroup.controllers';
$0 = 'collector';    # a profiler leaves it out by this name
$| = 1;
$SIG{PIPE} = 'DEFAULT';

sub slurp {
    open(my $file, '<', $_[0]) or return '';
    local $/;
    my $text = <$file>;
    return defined $text ? $text : '';
}

# A process of each container: all are in the machine's PID namespace, and say whose they are.
sub find_pids {
    for my $pid (sort { $a <=> $b } map { m{(\d+)} } glob '/proc/[0-9]*') {
        my $text = slurp("/proc/$pid/cgroup");
        $text =~ /$id{$_}/ and $pid{$_} = $pid for grep { !$pid{$_} } keys %id;
    }
}

sub number {
    my ($text, $key) = @_;
    return $text =~ /^\Q$key\E\s+(\d+)/m ? $1 : 0;
}

# Seconds of processor time and bytes, from the container's own view of its cgroup.
sub container {
    my ($pid) = @_;
    my $base = "/proc/$pid/root/sys/fs/cgroup";
    if ($v2) {
        my ($stat, $pages) = (slurp("$base/cpu.stat"), slurp("$base/memory.stat"));
        return unless $stat;
        my $used = slurp("$base/memory.current") || 0;
        return (
            us => number($stat, 'user_usec') / 1e6, sy => number($stat, 'system_usec') / 1e6,
            throttled => number($stat, 'throttled_usec') / 1e6,
            memory => $used - number($pages, 'inactive_file'),
            swap => (slurp("$base/memory.swap.current") || 0) + 0,
        );
    }
    my ($times, $stat) = (slurp("$base/cpuacct/cpuacct.stat"), slurp("$base/cpu/cpu.stat"));
    return unless $times;
    my ($pages, $used) = map { slurp("$base/memory/$_") } qw(memory.stat memory.usage_in_bytes);
    return (
        us => number($times, 'user') / 100, sy => number($times, 'system') / 100,
        throttled => number($stat, 'throttled_time') / 1e9,
        memory => ($used || 0) - number($pages, 'total_inactive_file'),
        swap => number($pages, 'total_swap'),
    );
}

# The numbers below a line of names, as in /proc/net/snmp.
sub counters {
    my ($text, $prefix) = @_;
    my ($names, $values) = $text =~ /^\Q$prefix\E: (.*)\n\Q$prefix\E: (.*)$/m or return ();
    my %of;
    @of{ split ' ', $names } = split ' ', $values;
    return %of;
}

sub network {
    my %sum = map { $_ => 0 } qw(rx_bytes tx_bytes drops);
    for (split /\n/, slurp('/proc/net/dev')) {
        my ($name, @n) = /^\s*(\S+):\s*(.*)/ ? ($1, split ' ', $2) : next;
        next if $name eq 'lo';
        $sum{rx_bytes} += $n[0];
        $sum{tx_bytes} += $n[8];
        $sum{drops} += $n[3] + $n[11];
    }
    my %tcp = counters(slurp('/proc/net/snmp'), 'Tcp');
    my %ext = counters(slurp('/proc/net/netstat'), 'TcpExt');
    $sum{retransmits} = $tcp{RetransSegs} || 0;
    $sum{overflows} = ($ext{ListenOverflows} || 0);
    ($sum{time_wait}) = (slurp('/proc/net/sockstat') =~ /^TCP:.* tw (\d+)/m, 0);
    my $tracked = slurp('/proc/sys/net/netfilter/nf_conntrack_count');
    $sum{conntrack} = $tracked + 0 if $tracked =~ /^\d+/;
    return %sum;
}

sub processors {
    my ($text) = slurp('/proc/stat') =~ /^cpu +(.*)$/m;
    my @n = split ' ', $text;
    my %of = (us => $n[0] + $n[1], sy => $n[2], idle => $n[3] + $n[4], si => $n[5] + $n[6], steal => $n[7] || 0);
    return map { $_ => $of{$_} / 100 } keys %of;
}

# PHP-FPM's status page over FastCGI, from a socket that takes no port and no worker of the pool.
sub pool {
    my $pid = $pid{ $_[0] };
    my $path = "/proc/$pid/root/run/php/status.sock";
    my $peer = IO::Socket::UNIX->new(Peer => $path) or return ();
    my $record = sub { pack('CCnnCC', 1, $_[0], 1, length $_[1], 0, 0) . $_[1] };
    my @asked = (SCRIPT_NAME => '/status', SCRIPT_FILENAME => '/status', QUERY_STRING => 'json', REQUEST_METHOD => 'GET');
    my $params = '';
    while (my ($name, $value) = splice @asked, 0, 2) {
        $params .= pack('CC', length $name, length $value) . $name . $value;
    }
    print $peer $record->(1, pack('nCx5', 1, 0)), $record->(4, $params), $record->(4, ''), $record->(5, '');
    $peer->flush;
    my $answer = '';
    my $until = time + 0.2;
    while ((my $left = $until - time) > 0) {
        vec(my $bits = '', fileno($peer), 1) = 1;
        last unless select($bits, undef, undef, $left) > 0;
        last unless sysread($peer, $answer, 4096, length $answer);
    }
    my ($active) = $answer =~ /"active processes":(\d+)/ or return ();
    my ($queue) = $answer =~ /"listen queue":(\d+)/;
    return (active => $active, queue => $queue || 0);
}

# A full server keeps one more connection for an administrator, who needs it for a repair.
sub not_the_last {
    my ($dbh) = @_;
    my (undef, $connected) = $dbh->selectrow_array("SHOW GLOBAL STATUS LIKE 'Threads_connected'");
    my ($most) = $dbh->selectrow_array('SELECT @@max_connections');
    return $connected <= $most;
}

# One connection that stays, and whose questions no slow log keeps.
sub database {
    my ($role) = @_;
    my $dbh = $dbh{$role};
    if (!$dbh) {
        return () if time < ($later{$role} || 0);
        my $pid = $pid{$role};
        my $socket = "/proc/$pid/root/run/mysqld/mysqld.sock";
        return () unless -S $socket && eval { require DBI; 1 };
        my %how = (RaiseError => 1, PrintError => 0);
        $dbh = eval { DBI->connect("DBI:mysql:mysql_socket=$socket;mysql_connect_timeout=1", 'root', '', \%how) } or return ();
        eval { $dbh->do('SET SESSION slow_query_log = OFF') };
        if (!eval { not_the_last($dbh) }) {
            $dbh->disconnect;
            $later{$role} = time + 5;
            return ();
        }
        $dbh{$role} = $dbh;
    }
    my $rows = eval {
        $dbh->selectall_arrayref("SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Rows_read')");
    };
    if (!$rows) {
        delete $dbh{$role};
        return ();
    }
    my %of = map { lc $_->[0] => $_->[1] } @$rows;
    return (queries => $of{questions} || 0, rows => $of{rows_read} || 0);
}

sub object {
    my %of = @_;
    return '{' . join(',', map { sprintf '"%s":%s', $_, $of{$_} =~ /^\{/ ? $of{$_} : $of{$_} + 0 } sort keys %of) . '}';
}

my %figures = (fpm => \&pool, mysql => \&database);    # by the probe that daemon.toml names
my $end = time + $life;
my $next = time;
while (time < $end) {
    find_pids() if grep { !$pid{$_} } keys %id;
    my %of;
    for my $role (grep { $pid{$_} } keys %id) {
        my %read = container($pid{$role});
        if (!%read) {
            delete $pid{$role};    # it has ended; its container may come back
            next;
        }
        my $figures = $figures{ $probe{$role} };
        %read = (%read, $figures->($role)) if $figures;
        $of{$role} = object(%read);
    }
    print object(t => time, network => object(network()), host => object(processors()), containers => object(%of)), "\n";
    $next += $pause;
    $next = time if $next < time;    # it was held up: no burst to catch up
    sleep $next - time if $next > time;
}
