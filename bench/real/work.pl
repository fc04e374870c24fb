# SPDX-License-Identifier: Apache-2.0 OR MIT
# Work for perl: hashes of arrays of strings, patterns, sorting. Prints figures that depend on the number of rounds
# only. Usage: perl work.pl ROUNDS
use strict;
use warnings;

my $rounds = shift @ARGV;
my $seed = 42;
my (%log, $matched);

sub dice {
    my ($limit) = @_;
    $seed = ($seed * 1103515245 + 12345) % 2147483648;
    return int($seed / 65536) % $limit;
}

for my $round (1 .. $rounds) {
    for my $line (1 .. 4000) {
        my $text = sprintf 'host%d service%d: request %d took %d ms %s', dice(300), dice(40), $line, dice(900),
            'x' x dice(60);
        if ($text =~ /^(host\d+) (\w+): request (\d+) took (\d+) ms/) {
            push @{$log{$1}{$2}}, "$3:$4";
            $matched += $4;
        }
    }
    for my $host (sort keys %log) {
        delete $log{$host} if dice(10) == 0;
    }
}
my $entries = 0;
my $longest = '';
for my $host (sort keys %log) {
    for my $service (sort keys %{$log{$host}}) {
        my $joined = join ',', sort @{$log{$host}{$service}};
        $entries += scalar @{$log{$host}{$service}};
        $longest = $joined if length $joined > length $longest;
    }
}
printf "%d rounds, %d hosts, %d entries, %d ms, %s\n", $rounds, scalar keys %log, $entries, $matched,
    substr($longest, 0, 40);
