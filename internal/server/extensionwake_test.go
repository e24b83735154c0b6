package server

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/swarm"
)

// woken plays a node at an address. waits checks whether the node was woken.
func (s *site) woken(addr string) (waits func(what string, want bool)) {
	s.t.Helper()
	conn, err := net.ListenPacket("udp", net.JoinHostPort(addr, strconv.Itoa(swarm.Port)))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return func(what string, want bool) {
		s.t.Helper()
		limit := 5 * time.Second
		if !want {
			limit = 200 * time.Millisecond // what was sent to this machine is here by then
		}
		_ = conn.SetReadDeadline(time.Now().Add(limit)) // it is open
		_, _, err := conn.ReadFrom(make([]byte, 16))
		if got := err == nil; got != want {
			s.t.Errorf("%s: the node was woken: %v (%v)", what, got, err)
		}
	}
}

// Every change of the extensions of running nodes wakes them: a setting, a fleet file, a moved tag, a new version of a
// tag. Other changes and dry runs do not.
func TestExtensionsAreFollowedAtOnce(t *testing.T) {
	s := startAlone(t)
	base := s.withSystemd("252.1")
	c, ctx := operatorOf(t, s), t.Context()
	s.boot(1, "")
	woken := s.woken("127.0.0.1")
	first := s.mustExtend(c, "tools", base)
	woken("an extension that it has not", false)
	list := func(names ...string) fleet.Keeping { return fleet.Keeping{Extensions: &names} }
	if _, err := c.SetGroup(ctx, fleet.DefaultGroup,
		api.GroupSet{Settings: fleet.Settings{Keeping: list("tools")}}); err != nil {
		t.Fatal(err)
	}
	woken("the group is told", true)
	second, err := s.addExtensionOf(
		c,
		"tools",
		base,
		image.Root{FileSystem: "erofs", Index: chunk.Sum([]byte("second")), Size: 4096, ChunkSize: 65536},
	)
	if err != nil {
		t.Fatal(err)
	}
	woken("a new version", true)
	for _, dry := range []bool{true, false} {
		change, err := c.SetTag(
			ctx,
			"tools",
			fleet.LatestTag,
			api.TagSet{Ref: fleet.Ref("tools@" + string(first)), DryRun: dry},
		)
		if err != nil || !slices.Equal(change.Follow, []string{"node001"}) || change.Was != second {
			t.Errorf("%+v, %v", change, err)
		}
		woken("a tag that moves", !dry)
	}
	lab, err := c.Image(ctx, "lab")
	if err != nil {
		t.Fatal(err)
	}
	change, err := c.SetTag(ctx, "lab", "other", api.TagSet{Ref: fleet.Ref("lab@" + string(lab.Versions[0].Digest))})
	if err != nil || len(change.Follow) > 0 {
		t.Errorf("%+v, %v", change, err)
	}
	woken("a tag of an image", false)

	group, err := c.Group(ctx, fleet.DefaultGroup)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what string
		list fleet.Keeping
		dry  bool
		want bool
	}{{"a plan", list(), true, false}, {"a file that changes nothing", list("tools"), false, false},
		{"a file without it", list(), false, true}, {"and with it", list("tools"), false, true}} {
		g := group.Group
		g.Keeping = step.list
		if _, err := c.ApplyFleet(ctx,
			api.Apply{Declaration: api.Declaration{Groups: []fleet.Group{g}}, DryRun: step.dry}); err != nil {
			t.Fatal(err)
		}
		woken(step.what, step.want)
	}
}

// The bill of materials of an extension lists what was installed for it, with the distribution of its image.
func TestExtensionSBOM(t *testing.T) {
	s := startSite(t)
	_, base := s.addRoot(map[string][]byte{"etc/os-release": []byte("ID=debian\nVERSION_ID=\"12\"\n")})
	c, ctx := operatorOf(t, s), t.Context()
	tools, err := s.addExtensionOf(c, "tools", base, s.realRoot(map[string][]byte{"usr/bin/jq": program(1, 9000)}))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.store.GetVersion(tools)
	if err != nil {
		t.Fatal(err)
	}
	p := image.Provenance{
		Format:   1,
		Packages: []image.Package{{Kind: "deb", Name: "jq", Version: "1.6", Architecture: "amd64"}},
	}
	unlock, err := s.store.Lock(ctx, "test") // the boot pack of the new extension is being made meanwhile
	if err != nil {
		t.Fatal(err)
	}
	if kept.Provenance, err = p.Encode(); err == nil {
		_, err = s.store.PutVersion(kept)
	}
	unlock()
	if err != nil {
		t.Fatal(err)
	}
	bill, err := c.ImageSBOM(ctx, "tools")
	if err != nil || !strings.Contains(string(bill), `"pkg:deb/debian/jq@1.6?arch=amd64\u0026distro=debian-12"`) {
		t.Errorf("%s, %v", bill, err)
	}
}
