package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Ticks is a reading of the machine's processors, in hundredths of a second.
type Ticks struct{ busy, interrupts, all int64 }

// ReadTicks reads /proc/stat. Time that a hypervisor took (steal) counts as busy.
func ReadTicks() (Ticks, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Ticks{}, err
	}
	return parseTicks(data)
}

func parseTicks(stat []byte) (t Ticks, err error) {
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
		if i == 5 || i == 6 {
			t.interrupts += n
		}
	}
	return t, nil
}

// Load is the load between two readings. own is the lab's processor time in between, in seconds.
func (t Ticks) Load(later Ticks, own float64) Load {
	all := float64(later.all - t.all)
	if all <= 0 {
		return Load{}
	}
	return Load{
		Busy:       float64(later.busy-t.busy) / all,
		Interrupts: float64(later.interrupts-t.interrupts) / all,
		Own:        own * 100 / all,
	}
}

// ProcessCost returns the processor time of a process so far, in seconds, and its peak resident memory in bytes.
func ProcessCost(pid int) (cpu float64, memory int64, err error) {
	var used unix.Timespec
	if err := unix.ClockGettime(processClock(pid), &used); err != nil {
		return 0, 0, fmt.Errorf("processor time of process %d: %w", pid, err)
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
	return time.Duration(used.Nano()).Seconds(), kib << 10, nil
}

// processClock returns the id of the clock of a process's processor time (clock_getcpuclockid(3)). /proc/PID/stat is
// too coarse, in hundredths of a second.
func processClock(pid int) int32 { return int32(^pid)<<3 | 2 }

// SessionCost returns the cost of all living processes of a session, given the process ID of its leader. A process that
// ends meanwhile does not count.
func SessionCost(leader int) (cpu float64, memory int64, err error) {
	if cpu, memory, err = ProcessCost(leader); err != nil {
		return 0, 0, err
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) // the pattern matches only numbers
		if err != nil || pid == leader || sessionOf(string(stat)) != leader {
			continue
		}
		if c, m, err := ProcessCost(pid); err == nil {
			cpu, memory = cpu+c, memory+m
		}
	}
	return cpu, memory, err
}

// sessionOf returns the session in the text of /proc/PID/stat, 0 if the text is malformed.
func sessionOf(stat string) int {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 4 {
		return 0
	}
	n, _ := strconv.Atoi(fields[3]) // 0 is not a session
	return n
}

// mostBusy is the largest share of the machine's processors that a run may use. Above it the run does not wait for the
// links only.
const mostBusy = 0.70

// Load is the share of all processors that was busy during a run, and what used it.
type Load struct {
	Busy       float64 `json:"busy"`       // all programs
	Own        float64 `json:"own"`        // the lab, the server and the nodes
	Interrupts float64 `json:"interrupts"` // mostly packets on the lab's links
}

// Others returns the share that other programs used.
func (l Load) Others() float64 { return max(0, l.Busy-l.Own-l.Interrupts) }

// TooBusy returns why a run is discarded, "" if it counts.
func (l Load) TooBusy() string {
	if l.Busy <= mostBusy {
		return ""
	}
	why := fmt.Sprintf("the machine was %.0f %% busy, more than %.0f %%", l.Busy*100, mostBusy*100)
	if l.Foreign() {
		why += fmt.Sprintf(", %.0f %% of it with other programs", l.Others()*100)
	}
	return why
}

// Foreign reports whether the run would have counted on an idle machine.
func (l Load) Foreign() bool { return l.Busy-l.Others() <= mostBusy }
