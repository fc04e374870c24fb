# tcl: lists, dictionaries, strings, regular expressions.
tclsh <<'T'
for {set i 0} {$i < 60000} {incr i} { dict lappend d [expr {$i * 7919 % 1009}] $i }
puts "keys [dict size $d] [llength [dict get $d 5]]"
set words {}
for {set i 0} {$i < 30000} {incr i} { lappend words "w[expr {$i * 31 % 29989}]" }
set sorted [lsort -unique $words]
puts "sorted [llength $sorted] [lindex $sorted 0] [lindex $sorted end]"
set text [join $words " "]
puts "text [string length $text] [regsub -all {w(\d)} $text {<\1>} out] [string length $out]"
proc fib n { if {$n < 2} { return $n }; expr {[fib [expr {$n - 1}]] + [fib [expr {$n - 2}]]} }
puts "fib [fib 18] [expr {2 ** 500 % 1000007}]"
T
