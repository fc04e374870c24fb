# ruby: strings, hashes, objects, garbage collection, JSON, threads.
ruby --disable-gems - <<'R'
require "json"
require "digest"
Point = Struct.new(:x, :y)
points = (0...60_000).map { |i| Point.new(i, i * i % 1009) }
groups = points.group_by(&:y)
puts "groups #{groups.size} #{groups[4].size}"
text = JSON.generate(groups.transform_values { |g| g.map(&:x) })
puts "json #{text.size} #{Digest::SHA256.hexdigest(text)}"
puts "same #{JSON.parse(text) == groups.to_h { |k, v| [k.to_s, v.map(&:x)] }}"
3.times { GC.start }
puts "threads #{(1..4).map { |n| Thread.new { (1..20_000).map { |i| (i * n).to_s }.join.size } }.map(&:value)}"
puts (1..2000).inject { |a, b| a * b }.to_s.size
puts ("a".."zz").map { |w| w.sub(/[aeiou]/, "*") }.tally.size
R
