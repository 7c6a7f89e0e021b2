// A peer of `kist bench erasure`: klauspost/reedsolomon behind the protocol of benches/peers/README.md.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/reedsolomon"
)

type request struct {
	operation                       string
	k, m, shard, stripes, cores, us int
	file                            string
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r request
		_, err := fmt.Sscan(lines.Text(), &r.operation, &r.k, &r.m, &r.shard, &r.stripes, &r.cores, &r.us, &r.file)
		if err != nil {
			fmt.Printf("{\"error\":%q}\n", err)
			continue
		}
		gbps, err := round(r)
		if err != nil {
			fmt.Printf("{\"error\":%q}\n", err)
			continue
		}
		fmt.Printf("{\"peer\":\"klauspost\",\"version\":\"1.14.2\",\"operation\":%q,\"gbps\":%.3f}\n", r.operation, gbps)
	}
}

type mapping struct {
	name  string
	bytes []byte
}

var mapped mapping

func stripesOf(r request) ([]byte, error) {
	size := r.stripes * (r.k + r.m) * r.shard
	if mapped.name == r.file && len(mapped.bytes) >= size {
		return mapped.bytes, nil
	}
	if mapped.bytes != nil {
		syscall.Munmap(mapped.bytes)
		mapped = mapping{}
	}
	file, err := os.OpenFile(r.file, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	bytes, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	for at := 0; at < size; at += 4096 {
		touched += int(bytes[at])
	}
	mapped = mapping{r.file, bytes}
	return bytes, nil
}

// position is the stripe at which the next round begins.
var position int

// touched keeps the reads that bring the pages in from being removed.
var touched int

type shape struct{ k, m, shard int }

var codecs = map[shape]reedsolomon.Encoder{}

func codecOf(r request) (reedsolomon.Encoder, error) {
	key := shape{r.k, r.m, r.shard}
	if codec, ok := codecs[key]; ok {
		return codec, nil
	}
	codec, err := reedsolomon.New(r.k, r.m, reedsolomon.WithMaxGoroutines(1), reedsolomon.WithCauchyMatrix(),
		reedsolomon.WithInversionCache(true))
	if err == nil {
		codecs[key] = codec
	}
	return codec, err
}

func round(r request) (float64, error) {
	if r.k < 1 || r.m < 1 || r.shard < 1 || r.cores < 1 || r.stripes < r.cores {
		return 0, fmt.Errorf("a number is out of range")
	}
	bytes, err := stripesOf(r)
	if err != nil {
		return 0, err
	}
	codec, err := codecOf(r)
	if err != nil {
		return 0, err
	}
	runtime.GOMAXPROCS(r.cores)
	share := r.stripes / r.cores
	// A round goes on where the last one ended, so that no stripe is still in the cache.
	first := position
	coded := make([]int, r.cores)
	failures := make([]error, r.cores)
	var all sync.WaitGroup
	begin := time.Now()
	end := begin.Add(time.Duration(r.us) * time.Microsecond)
	for core := 0; core < r.cores; core++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for at := first % share; ; at = (at + 1) % share {
				stripe := bytes[(core*share+at)*(r.k+r.m)*r.shard:][:(r.k+r.m)*r.shard]
				if failures[core] = run(codec, r, stripe); failures[core] != nil {
					return
				}
				coded[core] += r.k * r.shard
				if !time.Now().Before(end) {
					return
				}
			}
		}()
	}
	all.Wait()
	took := time.Since(begin).Seconds()
	sum := 0
	for core := range coded {
		if failures[core] != nil {
			return 0, failures[core]
		}
		sum += coded[core]
	}
	position = (first + sum/(r.k*r.shard*r.cores) + 1) % share
	return float64(sum) / took / 1e9, nil
}

func run(codec reedsolomon.Encoder, r request, stripe []byte) error {
	shards := make([][]byte, r.k+r.m)
	for shard := range shards {
		shards[shard] = stripe[shard*r.shard : (shard+1)*r.shard : (shard+1)*r.shard]
	}
	lost := 0
	switch r.operation {
	case "encode":
		return codec.Encode(shards)
	case "decode-1":
		lost = 1
	case "decode-m":
		lost = r.m
	default:
		return fmt.Errorf("operation %q is not offered", r.operation)
	}
	// A slice of length zero with room tells the library to rebuild the shard in place.
	for shard := 0; shard < min(lost, r.k); shard++ {
		shards[shard] = shards[shard][:0]
	}
	return codec.ReconstructData(shards)
}
