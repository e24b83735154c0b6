package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"pando/internal/testkit"
)

// mostBusy is how much of the machine's processors a run may take. Above it the links are not what the run waits for.
const mostBusy = 0.70

// cpuPerBoot is what one boot takes of a processor, in seconds: 0.5 s for the daemon, and the rest for links, server and
// comparing. It only chooses rates; what a run really took is measured.
const cpuPerBoot = 0.8

// fastest is the highest rate of a node's link at which a storm by unicast, with the server's link as fast, leaves the
// processors mostly idle. Such a storm takes N W/(eta B) and N boots of a processor, so N does not matter.
func fastest(w int64) testkit.Rate {
	r := float64(w) * 8 * float64(runtime.NumCPU()) * mostBusy / 2 / (eta * cpuPerBoot)
	return roundRate(r, 100*testkit.Mbit)
}

// roundRate rounds down to 1, 2 or 5 times a power of ten.
func roundRate(r float64, most testkit.Rate) testkit.Rate {
	best := 100 * testkit.Kbit
	for unit := best; unit <= most; unit *= 10 {
		for _, f := range []testkit.Rate{1, 2, 5} {
			if v := f * unit; float64(v) <= r && v <= most {
				best = v
			}
		}
	}
	return best
}

// ticks is a reading of the machine's processors, in hundredths of a second.
type ticks struct{ busy, all int64 }

// readTicks reads /proc/stat. Time that was stolen by a hypervisor counts as busy: it was not there to use.
func readTicks() (ticks, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}, err
	}
	return parseTicks(data)
}

func parseTicks(stat []byte) (t ticks, err error) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 9 || fields[0] != "cpu" {
		return t, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, f := range fields[1:9] { // user nice system idle iowait irq softirq steal
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return t, fmt.Errorf("/proc/stat: %w", err)
		}
		t.all += n
		if i != 3 && i != 4 {
			t.busy += n
		}
	}
	return t, nil
}

// share is the busy part of the time between two readings.
func (t ticks) share(later ticks) float64 {
	if later.all <= t.all {
		return 0
	}
	return float64(later.busy-t.busy) / float64(later.all-t.all)
}

// processCost is the processor time of a process so far, in seconds, and the most bytes that it had resident.
func processCost(pid int) (cpu float64, memory int64, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	if cpu, err = parseCPU(string(stat)); err != nil {
		return 0, 0, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0, 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return cpu, kib << 10, nil
}

// parseCPU finds user and system time in a line of /proc/PID/stat. The name of the program may have any character in it.
func parseCPU(stat string) (float64, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("process: %q", stat)
	}
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, fmt.Errorf("process: %w", err)
	}
	return float64(user+system) / 100, nil
}
