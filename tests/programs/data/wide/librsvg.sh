# librsvg, which is Rust: SVG with gradients and many shapes to PNG and PDF.
{
    echo '<svg xmlns="http://www.w3.org/2000/svg" width="600" height="600"><defs><linearGradient id="a"><stop offset="0" stop-color="red"/><stop offset="1" stop-color="blue"/></linearGradient><filter id="f"><feGaussianBlur stdDeviation="3"/></filter></defs>'
    for i in $(seq 1 400); do echo "<circle cx=\"$((i * 37 % 600))\" cy=\"$((i * 91 % 600))\" r=\"$((i % 40 + 2))\" fill=\"url(#a)\" opacity=\"0.4\"/>"; done
    echo '<rect x="50" y="50" width="300" height="200" filter="url(#f)"/></svg>'
} > in.svg
rsvg-convert in.svg -o out.png
sha256sum out.png
rsvg-convert -z 0.3 in.svg | wc -c
rsvg-convert -f pdf in.svg | wc -c
