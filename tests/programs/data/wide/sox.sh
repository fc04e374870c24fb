# sox: synthesis, effects, formats.
sox -R -n -r 44100 -b 16 a.wav synth 5 sine 200-2000 tremolo 5 40 reverb 30
sox -R a.wav b.flac rate 22050 norm -3
sox -R b.flac c.ogg
sox -R a.wav -n stat 2>&1 | grep -E 'Samples|Length'
sox -R b.flac -t raw - | sha256sum
sox -R -m a.wav a.wav -t raw - reverse | sha256sum
