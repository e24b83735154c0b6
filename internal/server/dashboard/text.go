package dashboard

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// pageFuncs returns the functions that templates can call.
func pageFuncs() template.FuncMap {
	return template.FuncMap{
		"span": span, "size": size, "rate": rate, "ago": ago, "clock": clock, "stamp": stamp, "short": short,
		"sources": sources,
		"share":   share, "word": word, "plural": plural, "join": strings.Join, "rank": trace.Rank,
		"stageText": stageText, "faultAt": faultAt,
		"add":      func(a, b int) int { return a + b },
		"words":    func(all ...string) []string { return all },
		"shortRef": shortRef, "chance": chance,
		"since": time.Time.Sub, "elapsed": elapsed, "bootMood": bootMood, "rolloutMood": rolloutMood,
		"barOf":    func(took time.Duration, most int64) bar { return newBar(0, took, time.Duration(most)) },
		"thousand": func(f float64) int { return int(f*1000 + 0.5) },
		"pct":      func(x int) string { return strconv.FormatFloat(float64(x)/10, 'f', -1, 64) + "%" },
	}
}

// size returns a number of bytes in three digits, with decimal units.
func size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f, units, i := float64(n), "kMGTPE", -1
	for f >= 999.5 && i < len(units)-1 {
		f /= 1000
		i++
	}
	if f < 99.95 {
		return fmt.Sprintf("%.1f\u00a0%cB", f, units[i])
	}
	return fmt.Sprintf("%.0f\u00a0%cB", f, units[i])
}

// rate returns bytes a second as bits a second, the way people name links.
func rate(bytes int64) string {
	switch bits := bytes * 8; {
	case bits >= 1e9:
		return fmt.Sprintf("%.3g\u00a0Gb/s", float64(bits)/1e9)
	default:
		return fmt.Sprintf("%.3g\u00a0Mb/s", float64(bits)/1e6)
	}
}

// span returns a duration for people: 42 ms, 12.3 s, 3 m 05 s, 2 h 04 m, 3 d 02 h. The spaces do not break.
func span(d time.Duration) string {
	text := ""
	switch {
	case d < 0:
		return "\u2212" + span(-d)
	case d < time.Second:
		text = fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		text = fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		text = fmt.Sprintf("%d m %02d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		text = fmt.Sprintf("%d h %02d m", d/time.Hour, d%time.Hour/time.Minute)
	default:
		text = fmt.Sprintf("%d d %02d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
	return strings.ReplaceAll(text, " ", "\u00a0")
}

// ago returns how long before now t was.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := max(0, now.Sub(t))
	switch {
	case d < 2*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d\u00a0s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d\u00a0min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d\u00a0h ago", d/time.Hour)
	}
	return fmt.Sprintf("%d\u00a0days ago", d/(24*time.Hour))
}

// clock returns a time in the server's time zone.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// stamp returns a time for programs.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// short returns a digest shortened for people.
func short(d fleet.Digest) string {
	if d == "" {
		return ""
	}
	return d.Short()
}

// chance returns a probability for people.
func chance(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", p)
}

// shortRef returns an image reference with its digest shortened for people.
func shortRef(ref string) string {
	name, digest, ok := strings.Cut(ref, "@")
	if !ok {
		return ref
	}
	return name + " " + fleet.Digest(digest).Short()
}

// elapsed returns the time of a boot. For an unfinished boot it is the time until now.
func elapsed(b api.Boot, now time.Time) time.Duration {
	if b.State == trace.Booting || b.State == trace.Failed {
		return max(b.Elapsed, now.Sub(b.Started))
	}
	return b.Elapsed
}

// source is where bytes came from, and their share.
type source struct {
	Name  string // class of the style sheet
	Text  string
	Bytes int64
	Share float64 // 0 to 1
	Start float64 // sum of the shares of earlier sources
}

// sourceTexts are the sources in the order of their display. A node's other counts ("pack", "cache", "zero") say how
// reads were answered, not what was received.
var sourceTexts = []source{
	{
		Name: trace.SourceK,
		Text: "kernel and initramfs",
	}, {
		Name: trace.SourceNeighbour,
		Text: "kernel and initramfs from nodes",
	}, {Name: "server", Text: "server"}, {Name: "near", Text: "its own place"}, {Name: "peer", Text: "peers"},
	{Name: "disk", Text: "its own disk"}, {Name: "ram", Text: "its own memory"},
}

// sources returns received bytes by source.
func sources(bytes map[string]int64) []source {
	var out []source
	var sum int64
	for _, s := range sourceTexts {
		if s.Bytes = bytes[s.Name]; s.Bytes > 0 {
			out = append(out, s)
			sum += s.Bytes
		}
	}
	for i := range out {
		out[i].Share = float64(out[i].Bytes) / float64(sum)
		if i > 0 {
			out[i].Start = out[i-1].Start + out[i-1].Share
		}
	}
	return out
}

// share returns a share in percent.
func share(f float64) string {
	if f > 0 && f < 0.01 {
		return "<1\u00a0%"
	}
	return fmt.Sprintf("%.0f\u00a0%%", f*100)
}

// word returns a mood for people.
func word(m mood) string {
	switch m {
	case discovered:
		return "to adopt"
	case never:
		return "not booted yet"
	}
	return string(m)
}

// plural returns "1 node" or "2 nodes".
func plural(n int, one string) string {
	if n == 1 {
		return "1\u00a0" + one
	}
	return fmt.Sprintf("%d\u00a0%ss", n, one)
}

// faultAt returns where a boot has its fault: the stage, or the state "degraded" for failed units.
func faultAt(f *api.Fault) string {
	if f.Kind == trace.UnitsFailed {
		return string(trace.Degraded)
	}
	return string(f.Stage)
}

// stageText says what happens in a stage.
func stageText(s trace.Stage) string { return stageTexts[s] }

var stageTexts = map[trace.Stage]string{
	trace.DHCP: "the firmware asks for an address", trace.BootFile: "boot loader sent", trace.Script: "iPXE asks " +
		"what to boot",
	trace.Kernel: "kernel sent", trace.Initramfs: "drivers, agent and keys sent", trace.Init: "the kernel has " +
		"started /init",
	trace.Modules: "drivers of the hardware loaded", trace.Link: "the network link comes " +
		"up", trace.Address: "address for the running system",
	trace.Register: "token redeemed, assignment verified", trace.Manifest: "manifest fetched, signature checked",
	trace.Device: "block device attached", trace.Root: "root file system mounted", trace.Config: "config files in " +
		"place",
	trace.SwitchRoot: "the image's init takes over", trace.Booted: "default target " +
		"reached", trace.Shutdown: "the node goes down",
}
