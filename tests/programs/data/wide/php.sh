# php: arrays, strings, regular expressions, JSON, objects; with memory from malloc (USE_ZEND_ALLOC=0) and its own.
cat > work.php <<'P'
<?php
class Node { public $left, $right; function __construct(public int $depth) {
    if ($depth > 0) { $this->left = new Node($depth - 1); $this->right = new Node($depth - 1); } }
  function count(): int { return 1 + ($this->left ? $this->left->count() + $this->right->count() : 0); } }
$a = [];
for ($i = 0; $i < 100000; $i++) $a["k" . $i * 7919 % 5003][] = $i;
ksort($a);
echo "keys ", count($a), " ", count($a["k17"]), "\n";
$json = json_encode($a);
echo "json ", strlen($json), " ", hash("sha256", $json), " ", json_decode($json, true) == $a ? "same" : "other", "\n";
echo "tree ", (new Node(13))->count(), "\n";
echo "replaced ", strlen(preg_replace('/(\d)7/', '<$1>', implode(" ", range(1, 50000)))), "\n";
echo "packed ", strlen(gzcompress($json)) > 1000, "\n";
P
php work.php
USE_ZEND_ALLOC=0 php work.php
