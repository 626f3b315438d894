package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cost is what a piece of work took. CPU time is that of all threads, the garbage collector's among them.
type cost struct {
	started        time.Time
	wallNS, cpuNS  int64
	mallocs, bytes uint64
}

// measure does the work between two readings of the clocks. Counting allocations stops the world, outside of them.
func measure(work func()) cost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, started := cpuNS(), time.Now()
	work()
	wall := time.Since(started)
	cpu = cpuNS() - cpu
	runtime.ReadMemStats(&after)
	return cost{started, wall.Nanoseconds(), cpu, after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc}
}

func cpuNS() int64 {
	var cpu unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &cpu); err != nil {
		panic(err) // every Linux has this clock
	}
	return cpu.Nano()
}

func memory() (map[string]uint64, error) {
	runtime.GC()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	answer := map[string]uint64{"heap_bytes": heap.HeapAlloc - eventsBytes}
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return nil, err
	}
	defer status.Close()
	wanted := map[string]string{"VmRSS:": "rss_bytes", "VmHWM:": "peak_rss_bytes"}
	for lines := bufio.NewScanner(status); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if name, ok := wanted[words[0]]; ok {
			var kibibytes uint64
			if _, err := fmt.Sscan(words[1], &kibibytes); err != nil {
				return nil, err
			}
			answer[name] = kibibytes << 10
		}
	}
	return answer, nil
}
