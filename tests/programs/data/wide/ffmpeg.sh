# ffmpeg: a test picture and a tone, encoded and decoded again.
f() { ffmpeg -nostdin -hide_banner -loglevel error -y "$@"; }
f -f lavfi -i testsrc=size=320x240:rate=25:duration=3 -f lavfi -i sine=frequency=440:duration=3 \
    -c:v mpeg4 -q:v 5 -c:a aac -threads 2 -bitexact out.mkv
f -i out.mkv -map 0:v -bitexact -f md5 -
f -i out.mkv -map 0:v -vf scale=160:-2,hue=s=0 -bitexact -f framemd5 - | tail -n 3
f -f lavfi -i testsrc=size=320x240:duration=2 -c:v libx264 -preset veryfast -threads 2 -bitexact out.mp4
ffprobe -v error -show_entries stream=codec_name,width,height,nb_frames -of csv out.mp4
