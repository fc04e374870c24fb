# imagemagick: gradients, blur, distortion, quantising, formats.
convert -size 400x300 gradient:red-blue -swirl 90 -wave 5x40 -resize 50% b.png
convert b.png -colors 16 -rotate 17 -gravity center -extent 300x300 c.gif
convert c.gif -negate -emboss 1 d.ppm
identify -format '%f %m %wx%h %k\n' b.png c.gif d.ppm
identify -format '%#\n' d.ppm
convert b.png c.gif +append -crop 100x100 +repage tiles-%02d.png
ls tiles-*.png | wc -l
compare -metric AE d.ppm d.ppm null: 2>&1
