# gnuplot: a curve fit, a surface, in SVG and as text.
seq 1 500 | awk '{ print $1, $1 * $1 / 100 + $1 % 7 }' > data.txt
gnuplot <<'G'
set fit quiet logfile '/dev/null'
f(x) = a * x ** 2 + b
a = 0.1; b = 1
fit f(x) 'data.txt' via a, b
print sprintf("a %.4f b %.3f", a, b)
set terminal svg size 600,400
set output 'plot.svg'
plot 'data.txt' with lines, f(x)
set output 'surface.svg'
set isosamples 40
splot sin(x) * cos(y) with lines
set terminal dumb 60 20
set output
plot sin(x)
G
grep -c path plot.svg surface.svg
