# SPDX-License-Identifier: Apache-2.0 OR MIT
# A program for tests/programs: hashes, arrays, regular expressions, closures and sorting of perl.
# What it prints depends on nothing but this file. Usage: perl workload.pl
use strict;
use warnings;

my $state = 42;
sub dice { $state = ($state * 16807) % 2147483647; return $state % $_[0]; }

my %index;
for my $i (1 .. 60000) {
    my $word = join '', map { chr(97 + dice(26)) } 1 .. 3 + dice(5);
    push @{ $index{ substr $word, 0, 2 } }, "$word$i";
}
my @largest = sort { @{ $index{$b} } <=> @{ $index{$a} } || $a cmp $b } keys %index;
printf "%s has %d words\n", $_, scalar @{ $index{$_} } for @largest[0 .. 4];

my $text = join ' ', map { @{ $index{$_} }[ 0 .. 2 ] } @largest[0 .. 200];
my $changed = ($text =~ s/([a-z]+)(\d+)/$2-\U$1/g);
print "$changed replacements, ", length $text, " characters, ", substr($text, 500, 40), "\n";

my @closures = map { my $n = $_; sub { return $n * $_[0] } } 1 .. 5000;
my $total = 0;
$total += $_->(3) for @closures;
print "closures: $total\n";

my @matrix = map { [ map { dice(100) } 1 .. 120 ] } 1 .. 120;
my $trace = 0;
for my $i (0 .. 119) {
    for my $j (0 .. 119) { $trace += $matrix[$i][$j] * $matrix[$j][$i]; }
}
print "matrix: $trace\n";

my $long = '';
$long .= chr(32 + dice(90)) for 1 .. 400000;
my %frequency;
$frequency{$_}++ for split //, $long;
print join(',', map { "$_=$frequency{$_}" } (sort keys %frequency)[ 10 .. 16 ]), "\n";
for my $round (1 .. 50) { %index = map { $_ => [ $_ x 20 ] } 1 .. 500; }
print "kept ", scalar(keys %index), "\n";
