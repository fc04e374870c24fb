# groff: a manual page and a document with tables, as text and PostScript.
{
    echo '.TH WORK 1 2020-02-02'
    for i in $(seq 1 150); do printf '.SH SECTION %s\nSome \\fBbold\\fR words in paragraph %s, which is long enough to be broken into lines.\n.TP\n.B --option-%s\nDoes it.\n' "$i" "$i" "$i"; done
} > work.1
groff -man -Tutf8 work.1 | sha256sum
groff -man -Tps work.1 | grep -vE '^%%Creat' | sha256sum
{ echo '.TS'; echo 'box; l | r.'; for i in $(seq 1 60); do printf 'row %s\t%s\n' "$i" "$((i * i))"; done; echo '.TE'; } | groff -t -ms -Tascii | sha256sum
