# poppler: text, pictures and facts of a PDF made from PostScript.
gs -q -dPAGES=6 -dSAFER -dBATCH -dNOPAUSE -sDEVICE=pdfwrite -sOutputFile=in.pdf pages.ps
pdftotext -layout in.pdf - | sha256sum
pdfinfo in.pdf | grep -E '^(Pages|Page size|PDF version)'
pdftoppm -r 40 -png in.pdf page
ls page*.png | wc -l
pdftocairo -svg -f 1 -l 1 in.pdf page.svg
grep -c '<' page.svg
