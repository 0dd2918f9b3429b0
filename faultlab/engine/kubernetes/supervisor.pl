# Supervises a daemon: it starts the daemon, and starts it again when it is asked to, with its files.
#
# The kubelet would make a new container with new files, and let it wait from the second time on.
# Docker's `restart` keeps the files of a container and empties its tmpfs, and so does this.
#
# perl supervisor.pl once|daemon STOP_SIGNAL TMPFS_FOLDERS COMMAND...
#   once: end with the command, as a machine does
#   daemon: stay when the command has ended; SIGUSR1 starts it again
use strict;
use warnings;
use POSIX qw(:sys_wait_h strftime);
use Time::HiRes qw(time);

my ($mode, $stop, $folders, @command) = @ARGV;
my $folder = '/run/supervisor';    # in the files of this container only
my $grace = 5;               # seconds until a command that does not end is killed, as in Docker
my ($main, $restarts, $asked, $ending, $started, $ooms) = (0, -1, 0, 0, '', 0);
$0 = 'supervisor';

sub slurp {
    open(my $file, '<', $_[0]) or return '';
    local $/;
    my $text = <$file>;
    return defined $text ? $text : '';
}

# How often the kernel has killed a process of this container for want of memory.
sub ooms {
    for my $name ('memory/memory.oom_control', 'memory.events') {
        return $1 if slurp("/sys/fs/cgroup/$name") =~ /^oom_kill (\d+)/m;
    }
    return 0;
}

sub note {
    my ($running, $code, $oom) = @_;
    return if $mode eq 'once';
    open(my $file, '>', "$folder/state.part") or return;
    print $file join(' ', $running, $code, $oom, $restarts, $started), "\n";
    close $file;
    rename "$folder/state.part", "$folder/state";
}

sub session {
    return slurp("/proc/$_[0]/stat") =~ /.*\) \S+ \d+ \d+ (\d+)/ ? $1 : 0;
}

# Docker ends all other processes of a container when its first one has ended. Who asks for the
# restart in here is not ended.
sub end_the_others {
    my $own = slurp('/proc/self/cgroup');
    chomp(my $asker = slurp("$folder/asker") || 0);
    my $asking = session($asker);
    for my $pid (map { m{(\d+)$} } glob '/proc/[0-9]*') {
        next if $pid == $$ or slurp("/proc/$pid/cgroup") ne $own;
        kill 'KILL', $pid if !$asking || session($pid) != $asking;
    }
}

sub start {
    end_the_others();
    system('find', $_, '-xdev', '-mindepth', '1', '-delete') for split /:/, $folders;
    $ooms = ooms();
    my $now = time;
    $started = strftime('%Y-%m-%dT%H:%M:%S', gmtime $now) . sprintf('.%06dZ', ($now - int $now) * 1e6);
    $restarts++;
    $main = fork();
    if (!$main) {
        $SIG{$_} = 'DEFAULT' for qw(USR1 ALRM TERM);
        exec {$command[0]} @command or POSIX::_exit(127);
    }
    $asked = 0;
    note(1, 0, 0);
}

$SIG{USR1} = sub {
    $asked = 1;
    if ($main > 0) { kill $stop, $main; alarm $grace }
};
$SIG{ALRM} = sub { kill 'KILL', $main if $main > 0 };
$SIG{TERM} = sub {
    $ending = 1;
    if ($main > 0) { kill $stop, $main }
    else { exit 0 }
};

if ($mode ne 'once') {
    mkdir $folder;
    if (open(my $file, '>', "$folder/pid")) { print $file "$$\n"; close $file }
}
start();
while (1) {
    my $ended = waitpid(-1, 0);
    my $status = $?;
    if ($ended > 0 && $ended == $main) {
        alarm 0;
        my $code = WIFSIGNALED($status) ? 128 + WTERMSIG($status) : WEXITSTATUS($status);
        exit $code if $mode eq 'once' or $ending;
        $main = -1;
        note(0, $code, ooms() > $ooms ? 1 : 0);
        end_the_others() unless $asked;
    }
    start() if $asked && $main < 0;
    select(undef, undef, undef, 0.05) if $ended < 0;
}
