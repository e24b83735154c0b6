package server

import (
	"bytes"
	"debug/pe"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/testkit/loaderkit"
)

// TestLoaders: an admin imports a build of iPXE, machines are sent it at once and after a restart, and the package's
// again when it is deleted.
func TestLoaders(t *testing.T) {
	s := startSite(t)
	ctx := t.Context()
	older := loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_AMD64, "1.0.0", false).Bytes()
	if err := os.WriteFile(filepath.Join(s.cfg.BootFiles, "snponly.efi"), older, 0o644); err != nil {
		t.Fatal(err)
	}
	s.restart()
	sent := func() []byte {
		_, b := s.node(1).get(netboot.FilePath + "snponly.efi")
		return b
	}
	firmware := func() (out string) {
		all, err := operatorOf(t, s).Loaders(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range all {
			out += l.Firmware + " " + l.Version + " "
			if l.Imported {
				out += "imported "
			}
		}
		return strings.TrimSpace(out)
	}
	if got := firmware(); got != "bios  efi-x64 1.0.0" || !bytes.Equal(sent(), older) {
		t.Fatalf("%q", got)
	}
	own := loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_AMD64, "2.0.0", true).Bytes()
	operator, admin := s.remote(fleet.Operator), s.remote(fleet.Admin)
	if _, err := operator.ImportLoader(ctx, own); !api.IsCode(err, api.Forbidden) {
		t.Errorf("an operator changes what all machines start with: %v", err)
	}
	if err := operator.DeleteLoader(ctx, "efi-x64"); !api.IsCode(err, api.Forbidden) {
		t.Errorf("an operator: %v", err)
	}
	if all, err := operator.Loaders(ctx); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	if l, err := operator.Loader(ctx, "efi-x64"); err != nil || l.Version != "1.0.0" || l.Digests {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := operator.Loader(ctx, "efi-arm64"); !api.IsCode(err, api.NotFound) {
		t.Errorf("%v", err)
	}
	l, err := admin.ImportLoader(ctx, own)
	if err != nil || l.Firmware != "efi-x64" || l.File != "snponly.efi" || !l.Imported || !l.Digests ||
		l.Size != len(own) {
		t.Fatalf("%+v, %v", l, err)
	}
	if got := firmware(); got != "bios  efi-x64 2.0.0 imported" || !bytes.Equal(sent(), own) {
		t.Errorf("imported: %q", got)
	}
	audited, err := operatorOf(t, s).Audit(ctx, 0, 1)
	if err != nil || len(audited) != 1 || audited[0].Path != "/v1/loaders?sha256="+l.SHA256 {
		t.Errorf("%+v, %v", audited, err)
	}
	s.restart()
	if got := firmware(); got != "bios  efi-x64 2.0.0 imported" || !bytes.Equal(sent(), own) {
		t.Errorf("after a restart: %q", got)
	}
	c := operatorOf(t, s)
	if err := c.DeleteLoader(ctx, "efi-x64"); err != nil || !bytes.Equal(sent(), older) {
		t.Errorf("deleted: %v", err)
	}
	if err := c.DeleteLoader(ctx, "efi-x64"); !api.IsCode(err, api.NotFound) {
		t.Errorf("the package's: %v", err)
	}
}

func TestLoadersThatAreRefused(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	whole := loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_AMD64, "2.0.0", true).Bytes()
	for name, tt := range map[string]struct {
		data []byte
		why  string
	}{
		"empty": {nil, "it is empty"}, "huge": {make([]byte, netboot.MaxLoader+1000), "larger than 8388608 bytes"},
		"cut": {whole[:len(whole)-1], "without its section"}, "text": {[]byte("#!ipxe"), "neither an EFI program"},
	} {
		if l, err := c.ImportLoader(t.Context(), tt.data); !api.IsCode(err, api.BadRequest) ||
			!strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
	h := s.socketRoutes()
	for query, want := range map[string]int{"": http.StatusOK, "?sha256=00": http.StatusBadRequest} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/v1/loaders"+query, bytes.NewReader(whole)))
		if w.Code != want {
			t.Errorf("POST %s: %d, want %d", query, w.Code, want)
		}
	}
}

// A damaged import costs the import and not the start of the server.
func TestServerStartsWithADamagedLoader(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	l, err := c.ImportLoader(t.Context(), loaderkit.BIOS())
	if err != nil || l.Firmware != "bios" {
		t.Fatalf("%+v, %v", l, err)
	}
	if err := os.WriteFile(l.From, []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.restart()
	all, err := operatorOf(t, s).Loaders(t.Context())
	if err != nil || len(all) != 1 || all[0].Imported {
		t.Errorf("%+v, %v", all, err)
	}
}
