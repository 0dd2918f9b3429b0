# Runs curl as it is told, one at a time, for the visitor of a stack (visitor.py).
#
# A line on standard input is: `NUMBER<tab>ARGUMENT<tab>ARGUMENT...` to start curl, `stop` to end the
# one that runs, or empty as a sign of life. For each curl it prints its number and what that printed.
# It ends with its input, or if it hears nothing for some seconds: then its reader was killed.
#
# perl -e SCRIPT SECONDS_OF_SILENCE
use strict;
use warnings;
use IO::Select;

my ($patience) = @ARGV;
my ($curl, $pid, $number, $said, $typed, $heard) = (undef, 0, '', '', '', time);
$0 = 'visitor';    # a profiler leaves it out by this name
$| = 1;
my $words = IO::Select->new(\*STDIN);

sub begin {
    ($number, my @arguments) = split /\t/, $_[0];
    $said = '';
    $pid = open($curl, '-|', 'curl', @arguments) or die "curl: $!\n";
    $words->add($curl);
}

LOOP: while (time - $heard < $patience) {
    for my $from ($words->can_read($patience)) {
        if ($curl && $from == $curl) {
            next if sysread $curl, $said, 4096, length $said;
            $words->remove($curl);
            close $curl;
            ($curl, $pid) = (undef, 0);
            chomp $said;
            print "$number $said\n";
            next;
        }
        sysread STDIN, $typed, 4096, length $typed or last LOOP;
        $heard = time;
        while ($typed =~ s/^(.*)\n//) {
            my $line = $1;
            if ($line eq 'stop') { kill 'TERM', $pid if $pid }
            elsif ($line ne '' && !$pid) { begin($line) }
        }
    }
}
kill 'TERM', $pid if $pid;
