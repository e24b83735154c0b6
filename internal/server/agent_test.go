package server

import (
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/bootplan"
	"pando/internal/httpapi"
	"pando/internal/image"
	"pando/internal/netboot"
)

// A machine whose architecture differs from its version's is told what to do, on its screen and on its timeline.
func TestBootOfAnotherArchitecture(t *testing.T) {
	s := startSite(t)
	s.addImage(func(m *image.Manifest) { m.Architecture = "arm64" })
	n := s.node(1)
	n.exchange(netboot.IPXE)
	_, b := n.get(
		"/boot/script?mac=" + strings.ReplaceAll(n.mac.String(), ":", "-") + "&ip=" + n.addr.String() + "&arch=x86_64",
	)
	for _, want := range []string{"this machine cannot boot", "is for arm64, and this machine is amd64",
		"pando image build lab-amd64 --architecture amd64"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the script does not say %q:\n%s", want, b)
		}
	}
}

// An image has one architecture: tags cannot move to a version that its nodes cannot run.
func TestImageHasOneArchitecture(t *testing.T) {
	s := startSite(t)
	s.addImage()
	_, version := s.addImage(func(m *image.Manifest) { m.Architecture = "arm64" })
	c := operatorOf(t, s)
	_, err := c.AddVersion(t.Context(), "lab", api.VersionAdd{Version: version})
	if !api.IsCode(err, api.Conflict) || !strings.Contains(httpapi.ErrorOf(err).Hint, "lab-arm64") {
		t.Errorf("%v", err)
	}
	if _, err := c.AddVersion(t.Context(), "other", api.VersionAdd{Version: version}); err != nil {
		t.Error(err)
	}
}

func TestNoMediumForARM64(t *testing.T) {
	s := startSite(t)
	m, version := s.addImage(func(m *image.Manifest) { m.Architecture = "arm64" })
	_, err := s.media.Contents(t.Context(), bootplan.Plan{Image: "lab", Version: version, Manifest: m}, nil)
	if err == nil || !strings.Contains(err.Error(), "lab is for arm64") {
		t.Errorf("%v", err)
	}
}
