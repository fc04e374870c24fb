# go: the compiler and linker, and a program that allocates through C.
export GOCACHE=$PWD/cache GOPATH=$PWD/go GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=1
mkdir work
cat > work/main.go <<'G'
package main

// #include <stdlib.h>
// #include <string.h>
import "C"

import (
	"crypto/sha256"
	"fmt"
	"sort"
	"sync"
	"unsafe"
)

func work(seed int) string {
	blocks := []unsafe.Pointer{}
	words := map[string]int{}
	for i := 0; i < 4000; i++ {
		p := C.malloc(C.size_t(16 + i*seed%2000))
		C.memset(p, C.int(seed), 16)
		blocks = append(blocks, p)
		words[fmt.Sprint("w", i*7919%1009)] += i
	}
	keys := []string{}
	for k := range words {
		keys = append(keys, fmt.Sprint(k, words[k]))
	}
	sort.Strings(keys)
	for _, p := range blocks {
		C.free(p)
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(fmt.Sprint(keys))))
}

func main() {
	var wait sync.WaitGroup
	answers := make([]string, 8)
	for i := range answers {
		wait.Add(1)
		go func(i int) { defer wait.Done(); answers[i] = work(i + 1) }(i)
	}
	wait.Wait()
	for i, a := range answers {
		fmt.Println(i, a)
	}
}
G
cd work
/usr/bin/go mod init work 2>/dev/null
/usr/bin/go vet .
/usr/bin/go build -o program .
./program
