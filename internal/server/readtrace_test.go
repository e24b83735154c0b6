package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/trace"
)

func TestImageTrace(t *testing.T) {
	s := startSite(t)
	m, version := s.addRoot(map[string][]byte{
		"usr/bin/init": program(
			1,
			150_000,
		), "usr/lib/python3/site.py": program(2, 300_000), "usr/lib/late": program(3, 100_000),
		"never": program(4, 900_000),
	})
	ctx, c := t.Context(), api.OverSocket(s.cfg.Dir+"/"+SocketFile)
	defer c.Close()
	got, err := c.ImageTrace(ctx, "lab")
	if err != nil || got.Version != version || got.Read != 0 || got.Files == nil || got.Boots == nil ||
		got.Packs == nil {
		t.Errorf("before the first boot: %+v, %v", got, err)
	}
	reads := s.readsOf(
		m,
		"usr/bin/init",
		"usr/lib/python3/site.py",
		"usr/lib/late",
	) // the last one 2 s after the device
	reads[3].At = 9 * time.Second
	for i := range byte(2) {
		a, send := s.boot(i+1, "")
		req := api.TraceRequest{Reads: trace.EncodeReads(reads)}
		if a.Pack != nil {
			t.Errorf("boot %d has a pack", i)
		}
		if e := send(req); e != nil {
			t.Fatal(e)
		}
		s.clock.add(time.Minute)
	}
	s.packed(version, "", func(bootpack.Record) bool { return true })
	a, send := s.boot(3, "")
	if e := send(api.TraceRequest{Reads: trace.EncodeReads(reads), Pack: a.Pack.Object, Hits: 500, Misses: 20,
		Wasted: 3}); e != nil {
		t.Fatal(e)
	}
	got, err = c.ImageTrace(ctx, "lab:latest")
	if err != nil {
		t.Fatal(err)
	}
	var files, stages []string
	for _, f := range got.Files {
		files = append(files, fmt.Sprintf("%s %d %s", f.Path, f.Read/4096, f.Stage))
	}
	for _, v := range got.Stages {
		stages = append(stages, fmt.Sprintf("%s %d %d", v.Stage, v.Read/4096, v.Requests))
	}
	if want := []string{"usr/lib/python3/site.py 74 booted", "usr/bin/init 37 booted", "usr/lib/late 25 " +
		"later", " 1 booted"}; !slices.Equal(
		files,
		want,
	) {
		t.Errorf("files %q, want %q", files, want)
	}
	if want := []string{"booted 112 3", "later 25 1"}; !slices.Equal(stages, want) {
		t.Errorf("stages %q, want %q", stages, want)
	}
	if len(got.Boots) != 3 || got.Boots[0].Pack != a.Pack.Object || got.Boots[0].Hits != 500 ||
		got.Boots[2].Requests != 4 ||
		got.Read != 137*4096 {
		t.Errorf("boots %+v, %d bytes", got.Boots, got.Read)
	}
	if p := got.Packs; len(p) != 1 || p[0].Object != a.Pack.Object || p[0].Raw != got.Read ||
		p[0].Stored >= got.Chunks ||
		p[0].Stored == 0 {
		t.Errorf("packs %+v, %d bytes as chunks", p, got.Chunks)
	}
	if len(got.Advice) != 1 || !strings.Contains(got.Advice[0].Text, "Python") || got.Advice[0].Read != 74*4096 {
		t.Errorf("advice %+v", got.Advice)
	}
	for ref, want := range map[fleet.Ref]api.Code{"other": api.NotFound, "lab:none": api.NotFound,
		"No Name": api.BadRequest} {
		var refusal *api.Error
		if _, err := c.ImageTrace(ctx, ref); !errors.As(err, &refusal) || refusal.Code != want {
			t.Errorf("%s: error %v, want %s", ref, err, want)
		}
	}
}

// A version with a pack that was never booted is described by its pack.
func TestImageTraceOfAPack(t *testing.T) {
	s := startSite(t)
	m, old := s.addRoot(map[string][]byte{"file": program(1, 150_000)})
	reads := trace.EncodeReads(s.readsOf(m, "file"))
	for i := range byte(2) {
		if _, send := s.boot(i+1, ""); send(api.TraceRequest{Reads: reads}) != nil {
			t.Fatal("the trace was refused")
		}
	}
	s.packed(old, "", func(bootpack.Record) bool { return true })
	s.clock.add(time.Hour)
	_, version := s.addRoot(map[string][]byte{"file": program(1, 150_000), "a": program(2, 9000)})
	s.packs.Look(version)
	s.packed(version, "", func(bootpack.Record) bool { return true })
	c := api.OverSocket(s.cfg.Dir + "/" + SocketFile)
	defer c.Close()
	got, err := c.ImageTrace(t.Context(), "lab")
	if err != nil || len(got.Boots) != 0 || len(got.Stages) != 0 || len(got.Packs) != 1 || got.Packs[0].From != old ||
		len(got.Files) != 2 ||
		got.Files[0].Path != "file" {
		t.Errorf("%+v, %v", got, err)
	}
}
