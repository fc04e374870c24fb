# zip, unzip and 7zz: a folder of files, there and back.
mkdir files
for i in $(seq 1 300); do seq 1 $((i * 7)) > "files/$i.txt"; done
find files -exec touch -d '2020-02-02 02:02:02' {} +
zip -q -r -9 -X all.zip files
unzip -q all.zip -d out && diff -r files out/files && unzip -l all.zip | tail -n 1
7zz a -bd -mx=7 -mmt=2 all.7z files > /dev/null
7zz x -bd -oout7 all.7z > /dev/null && diff -r files out7/files && 7zz l all.7z | tail -n 1 | tr -s ' '
7zz t all.zip | grep -E '^(Files|Size)'
