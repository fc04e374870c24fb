# doxygen: pages for the headers of a project.
printf 'PROJECT_NAME=work\nINPUT=.\nFILE_PATTERNS=*.h *.cc *.c\nGENERATE_LATEX=NO\nGENERATE_XML=YES\nQUIET=YES\nWARNINGS=NO\nEXTRACT_ALL=YES\nHAVE_DOT=NO\nTIMESTAMP=NO\nHTML_TIMESTAMP=NO\n' > Doxyfile
for i in $(seq 1 40); do printf '/** What unit %s does. */\nstruct s%s {\n int a; /**< first */\n char *b;\n};\n/** Adds. @param x one @return more */\nint f%s(struct s%s *x);\n' "$i" "$i" "$i" "$i" > "u$i.h"; done
doxygen Doxyfile
find html -name '*.html' | wc -l
find xml -name 'u*.xml' -exec cat {} + | wc -c
