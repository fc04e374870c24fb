# ghostscript: PostScript to a picture and to PDF, and the PDF to text.
g() { gs -q -dPAGES=6 -dSAFER -dBATCH -dNOPAUSE "$@"; }
g -sDEVICE=ppmraw -r72 -sOutputFile=page-%02d.ppm pages.ps
sha256sum page-0[1-4].ppm
g -sDEVICE=pdfwrite -sOutputFile=out.pdf pages.ps
g -sDEVICE=txtwrite -sOutputFile=- out.pdf | sha256sum
g -sDEVICE=pngmono -r50 -sOutputFile=last.png out.pdf
ls | wc -l
