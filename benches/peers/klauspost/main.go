// A peer of `kist bench erasure`: klauspost/reedsolomon behind the protocol of benches/peers/README.md.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/klauspost/reedsolomon"
)

// batchBytes are worked on between two looks at the clock.
const batchBytes = 1 << 20

type request struct {
	operation                       string
	k, m, shard, stripes, first, us int
	file                            string
}

func main() {
	runtime.GOMAXPROCS(1)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r request
		_, err := fmt.Sscan(lines.Text(), &r.operation, &r.k, &r.m, &r.shard, &r.stripes, &r.first, &r.us, &r.file)
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

// mappingOf gives the whole of a file, with its pages brought in.
func mappingOf(name string) ([]byte, error) {
	if mapped.name == name {
		return mapped.bytes, nil
	}
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	access := syscall.PROT_READ | syscall.PROT_WRITE
	bytes, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()), access, syscall.MAP_SHARED|syscall.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	mapped = mapping{name, bytes}
	return bytes, nil
}

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
	if r.k < 1 || r.m < 1 || r.shard < 1 || r.first < 0 || r.first >= r.stripes {
		return 0, fmt.Errorf("a number is out of range")
	}
	bytes, err := mappingOf(r.file)
	if err != nil {
		return 0, err
	}
	stripeBytes := (r.k + r.m) * r.shard
	if r.stripes*stripeBytes > len(bytes) {
		return 0, fmt.Errorf("the file is too short")
	}
	codec, err := codecOf(r)
	if err != nil {
		return 0, err
	}
	shards := make([][]byte, r.k+r.m)
	at, coded := r.first, 0
	begin := time.Now()
	for {
		for batch := 0; batch == 0 || (batch+1)*stripeBytes <= batchBytes; batch++ {
			if err := run(codec, r, bytes[at*stripeBytes:][:stripeBytes], shards); err != nil {
				return 0, err
			}
			coded += r.k * r.shard
			at++
			if at == r.stripes {
				at = 0
			}
		}
		if took := time.Since(begin); took >= time.Duration(r.us)*time.Microsecond {
			return float64(coded) / took.Seconds() / 1e9, nil
		}
	}
}

func run(codec reedsolomon.Encoder, r request, stripe []byte, shards [][]byte) error {
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
